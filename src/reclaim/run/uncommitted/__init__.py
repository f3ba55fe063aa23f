"""Uncommitted data: runs that read only possible changes since an earlier run.

A *full* run lists everything and reads every live container missing from the index. After its apply
it leaves a *checkpoint*: the state of the store and the *index* of the entries in live containers.
An *incremental* run starts from the checkpoint. Any uncertainty leads to a full run.
"""
