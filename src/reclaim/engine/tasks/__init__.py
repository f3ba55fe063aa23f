"""The tasks of a run: list a folder, read a container, judge objects, delete a page.

Arrow in, Arrow out; no Spark and no database. An *engine* spreads tasks over machines; a *part*
is a file that a task wrote, with the hash that tells whether it is still the same; a *place* is
where a run keeps such files.
"""
