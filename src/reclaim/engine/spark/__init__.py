"""Spark: the session, and the engine running the tasks of a run on executors.

Entry points make the *session* and pass it to everything else. The *engine* turns tasks into jobs;
only jobs read, write or count.
"""
