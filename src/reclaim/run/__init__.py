"""Runs: plan a deletion under a policy, review the plan, and apply it to a store.

An *expire* run removes snapshots from history and deletes no bytes. Planning is read-only. Every
apply is recorded, so it can be undone.
"""
