"""Database of a catalog: tables, schema versions, and transactions with explicit isolation."""
