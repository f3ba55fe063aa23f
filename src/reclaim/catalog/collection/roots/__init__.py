"""The roots of a repository, as a collector observes them."""
