"""``python -m reclaim.cli.archiving``: make Java's archive of Spark classes on this machine."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reclaim.cli.views import exits

if TYPE_CHECKING:
    from reclaim.engine.base import Engine


def main() -> int:
    """Make the archive in this process."""
    from reclaim.engine.spark.class_archive import ClassArchive
    from reclaim.engine.spark.class_archive_writer import make_archive

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(exits.TERMINATED))
    archive = ClassArchive.find()
    if archive is None:
        print("no class archive is wanted, or there is no Java", file=sys.stderr)
        return exits.UNEXPECTED
    if not make_archive(archive, _work):
        print(f"{archive.file} was not made", file=sys.stderr)
        return exits.UNEXPECTED
    print(archive.file)
    return exits.DONE


def _work(engine: Engine, folder: Path) -> None:
    """Plan and apply, so that Java loads the classes of both."""
    from reclaim.clock import SystemClock
    from reclaim.demo import run

    run(folder / "demo", engine, until=SystemClock().now())


if __name__ == "__main__":
    sys.exit(main())
