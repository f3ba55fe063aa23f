"""The setting ``protect``."""
