"""Detection of database copies working on the same storage."""
