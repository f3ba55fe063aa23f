"""Progress of runs: readings of each stage, and where they are shown."""
