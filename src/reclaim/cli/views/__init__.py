"""Output for people and programs: tables, documents, failures, exit codes."""
