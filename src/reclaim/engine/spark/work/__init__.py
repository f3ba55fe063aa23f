"""The work of executors: tables in, tables out, each function for one kind of task."""
