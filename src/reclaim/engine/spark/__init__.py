"""Spark: the session, and the engine that runs the tasks of a run on executors.

A *session* is made by entry points and given to everything else. The *engine* turns tasks into
jobs; only jobs read, write or count.
"""
