"""Reclaim's files beside a foreign store: small objects in a folder of the storage.

They hold the lock, leases on snapshots, lists of condemned snapshots, and records of runs. Access
to the storage is sufficient; no other server is needed.
"""
