"""The Python API: open a store, plan, apply, undo. ``reclaim`` exports its names.

The command line is built on it.
"""
