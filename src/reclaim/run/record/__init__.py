"""Records of a run: journal, lists, checkpoints, stages, interruptions."""
