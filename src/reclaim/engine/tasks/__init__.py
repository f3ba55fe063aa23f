"""The tasks of a run: list a folder, read a container, judge objects, delete a page.

Arrow in, Arrow out; no Spark and no database. An *engine* spreads tasks over machines; a *part* is
a file written by a task, with a hash to detect changes; a *place* is a folder for the files of a
run.
"""
