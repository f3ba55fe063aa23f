"""Uncommitted data: runs that look only at what may have changed since an earlier one.

A *clean* run lists everything and reads every live container. After its apply it leaves a
*checkpoint*, which says what was known then, and an *index* of what live containers list. An
*optimized* run starts from both. Whatever it cannot be sure of makes it a clean run.
"""
