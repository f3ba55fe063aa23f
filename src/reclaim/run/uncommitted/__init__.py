"""Uncommitted data: runs that look only at what may have changed since an earlier one.

A *full* run lists everything and reads every live container that the index does not have. After its
apply it leaves a *checkpoint*, with what was known then and the *index* of what live containers
list. An *incremental* run starts from it. Whatever it cannot be sure of makes it a full run.
"""
