"""The work of tasks: tables in, tables out, each function for one kind of task."""
