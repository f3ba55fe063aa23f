"""Progress of runs and transfers on stderr, and logs."""
