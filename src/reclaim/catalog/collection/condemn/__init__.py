"""Condemned commits and claimed addresses: from provisional to final, and leftovers."""
