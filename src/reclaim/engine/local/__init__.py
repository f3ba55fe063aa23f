"""The engine in this process: the same tasks, one after the other, for small stores."""
