"""Plan: list the objects, read the roots, decide, mark, and write down what may be deleted."""
