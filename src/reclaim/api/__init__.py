"""The Python API: open a store, plan, apply, undo. The names that ``reclaim`` exports are here.

The command line is built on it.
"""
