"""Roots: everything that keeps objects, beside the refs and leases that a store itself reports.

``ROOTS`` in ``roots`` lists the sources. A plan and its apply ask all of them.
"""
