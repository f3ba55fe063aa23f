"""Lifecycle: runs that delete data by age, prefix and branch, even if it is referenced.

A *full* run judges every entry. After its apply it leaves a *checkpoint*; the next run starts from
it and reads only possible changes. Any uncertainty leads to a full run.
"""
