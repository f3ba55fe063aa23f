"""Answers as people and programs read them: tables, documents, failures, exit codes."""
