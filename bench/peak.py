"""Run ``prepare`` on a catalog and print the peak memory of this process in MB."""

from __future__ import annotations

import resource
import sys

from reclaim.catalog import Catalog

if __name__ == "__main__":
    with Catalog.open(sys.argv[1]) as catalog:
        prepared = catalog.repository("bench").prepare()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, prepared.staged)
