"""Engines: run the steps of a run whose cost grows with the size of the data.

``base`` is the interface, ``tasks`` the work of a single task. ``spark`` spreads tasks over
machines, ``local`` runs them in this process.
"""
