"""Progress of runs: readings of each stage, and their display."""
