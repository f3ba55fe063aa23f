"""Stores: where versioned data lives, behind a few small classes (``base``).

A *store* says what it holds (``observe``), how its files are read (its *format*, which travels to
the executors) and, where it can, edits its history and condemns what will go.
"""
