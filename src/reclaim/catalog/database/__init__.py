"""The database of a catalog: tables, versions of the schema, transactions with stated isolation."""
