"""Options and arguments shared by commands."""
