"""Doctor: examine a store, its storage and this machine."""
