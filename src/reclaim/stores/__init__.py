"""Stores of versioned data, behind a few small interfaces (``base``).

A *store* reports its contents (``observe``), supplies the *format* of its files (used by the
executors) and, where it can, edits its history and condemns snapshots.
"""
