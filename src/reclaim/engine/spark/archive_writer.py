"""Makes the class archive: in a process of its own, once, while nobody waits for it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reclaim.engine.base import Engine
from reclaim.engine.spark.archive import OFF, VARIABLE, ClassArchive
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.spark.java import running_java
from reclaim.engine.spark.session import LOCAL, LOG_VARIABLE, build_session, java_options

Workload = Callable[[Engine, Path], None]
"""Does with an engine, in a folder, what engines are used for."""

DUMP_SECONDS = 600
"""How long Java may take to end. It writes the archive then."""


def make_archive(archive: ClassArchive, workload: Workload) -> bool:
    """Make an archive of the classes that a workload needs, and say whether it is there now.

    It gets its name when it is whole. One process makes it; others leave it to that one.
    """
    folder = archive.file.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with archive.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        if archive.is_there:
            return True
        # Whatever ends this process, nobody tries again at once.
        archive.failed.touch()
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder) as name:
            written = Path(name) / archive.file.name
            _write(archive, written, workload)
            if not written.is_file() or not written.stat().st_size:
                return False
            written.chmod(0o600)
            length = Path(name) / "length"
            length.write_text(str(written.stat().st_size))
            written.replace(archive.file)
            length.replace(archive.length)
        archive.failed.unlink(missing_ok=True)
        archive.remove_unused()
        return True


def _write(archive: ClassArchive, file: Path, workload: Workload) -> None:
    # This session must not use another archive of the same name.
    os.environ[VARIABLE] = OFF
    # Nor write into the log of the command that it was started by.
    os.environ.pop(LOG_VARIABLE, None)
    options = archive.written_by(java_options(), file)
    settings = {"spark.driver.extraJavaOptions": options}
    session = build_session(master=LOCAL, settings=settings, silent=True)
    java = running_java()
    assert java is not None, "this process had a session before"
    try:
        with tempfile.TemporaryDirectory(prefix="reclaim-archive-") as scratch:
            workload(SparkEngine(session), Path(scratch))
        session.stop()
    finally:
        # Java ends when nobody writes to it any more.
        if java.stdin is not None:
            java.stdin.close()
        try:
            java.wait(DUMP_SECONDS)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()


def _remove_leftovers(folder: Path) -> None:
    """Remove what processes that were killed have left. The lock says that none of them runs."""
    for path in folder.glob(".making-*"):
        with suppress(OSError):
            shutil.rmtree(path)
