"""Reclaim's files beside a store that is not its own: small objects in a folder of the storage.

The lock of a store, the leases on its snapshots, the lists of condemned ones, the records of
runs. Whoever can reach the storage can use them; no other server is needed.
"""
