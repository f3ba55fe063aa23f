"""Machinery of the tests: servers, the scheduler and its search, writers of test stores."""
