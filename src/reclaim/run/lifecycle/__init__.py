"""Lifecycle: runs that delete data for its age, by prefix and branch, whatever refers to it.

A *full* run judges every entry. After its apply it leaves a *checkpoint*, from which the next one
looks only at what may have changed. Whatever is uncertain makes it a full run.
"""
