"""The work of tasks: tables in, tables out, each function for a single kind of task."""
