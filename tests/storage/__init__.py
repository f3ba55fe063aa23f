"""Storage: what lies between Reclaim and files or objects."""
