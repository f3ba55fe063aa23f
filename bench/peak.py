"""Export the roots of a catalog's repository and print the peak memory of this process in MB."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from reclaim.catalog import Catalog
from reclaim.storage import ObjectStorage


def peak_megabytes() -> float:
    """The peak of this program's own memory; ``ru_maxrss`` would count its parent's too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not tell the peak of a program's memory")


if __name__ == "__main__":
    with Catalog.open(sys.argv[1]) as catalog:
        with tempfile.TemporaryDirectory() as folder:
            destination = ObjectStorage.open(Path(folder).as_uri())
            roots = catalog.repository("bench").read_roots(destination)
    print(peak_megabytes(), roots.held)
