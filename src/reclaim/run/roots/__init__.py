"""Roots: everything that keeps objects, in addition to refs and leases reported by a store.

``ROOTS`` in ``roots`` lists the sources. Both a plan and its apply read all of them.
"""
