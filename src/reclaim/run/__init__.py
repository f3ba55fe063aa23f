"""Runs: what is planned from a policy, reviewed, and applied to a store.

An *expire* run takes snapshots out of history and deletes no bytes. A plan changes nothing; what
is applied is recorded, so that it can be undone.
"""
