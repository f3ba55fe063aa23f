"""Makes the class archive of Spark, after a command that had to do without: see decision 0040.

``python -m reclaim.cli.archiving`` makes it at once, for an image or before a first run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reclaim.cli import exits

if TYPE_CHECKING:
    from reclaim.engine.base import Engine

LOWEST_PRIORITY = 19


def start_archiving() -> None:
    """Let a process of its own make the archive, if there is to be one. Nobody waits for it."""
    from reclaim.engine.spark.archive import ClassArchive
    from reclaim.engine.spark.java import running_java

    # The command is over, and ended well; nothing that goes wrong here changes that.
    with suppress(Exception):
        archive = ClassArchive.find()
        if archive is None or not archive.is_wanted or running_java() is None:
            return
        subprocess.Popen(
            [sys.executable, "-m", "reclaim.cli.archiving"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # It outlives the command and its terminal, and holds on to no folder.
            start_new_session=True,
            cwd="/",
        )


def main() -> int:
    """Make the archive, in this process. Whoever else makes it is left to it."""
    from reclaim.engine.spark.archive import ClassArchive
    from reclaim.engine.spark.archive_writer import make_archive

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(exits.TERMINATED))
    with suppress(OSError):
        os.nice(LOWEST_PRIORITY)
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
    """Plan and apply once, so that Java has loaded what plans and applies need."""
    from reclaim.clock import SystemClock
    from reclaim.demo import run

    run(folder / "demo", engine, until=SystemClock().now())


if __name__ == "__main__":
    sys.exit(main())
