"""Write the class archive on request."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark import SparkContext

from reclaim.engine.base import Engine
from reclaim.engine.spark.class_archive import OFF, VARIABLE, ClassArchive
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.spark.session import LOCAL, build_session, java_options

Workload = Callable[[Engine, Path], None]
"""Uses an engine, in a folder, as runs do."""

DUMP_SECONDS = 600
"""Seconds Java may take to exit. It writes the archive then."""


def make_archive(archive: ClassArchive, workload: Workload) -> bool:
    """Archive the classes a workload needs, and return whether the archive exists now.

    The archive gets its name once complete.
    """
    folder = archive.file.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if archive.exists:
        return True
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder) as name:
        written = Path(name) / archive.file.name
        _write(archive, written, workload)
        if not written.is_file() or not written.stat().st_size:
            return False
        written.chmod(0o600)
        length = Path(name) / "length"
        length.write_text(str(written.stat().st_size))
        # Two processes can leave the length of one beside the archive of the other, which is then
        # ignored.
        written.replace(archive.file)
        length.replace(archive.length)
    archive.remove_unused()
    return archive.exists


def _write(archive: ClassArchive, file: Path, workload: Workload) -> None:
    # This session must not use an archive of the same name.
    os.environ[VARIABLE] = OFF
    options = archive.options_to_write(java_options(), file)
    settings = {"spark.driver.extraJavaOptions": options}
    session = build_session(master=LOCAL, settings=settings, silent=True)
    gateway = SparkContext._gateway
    assert gateway is not None
    java: subprocess.Popen[bytes] = gateway.proc
    try:
        with tempfile.TemporaryDirectory(prefix="reclaim-archive-") as scratch:
            workload(SparkEngine(session), Path(scratch))
        session.stop()
    finally:
        # Java exits once its input is closed.
        if java.stdin is not None:
            java.stdin.close()
        try:
            java.wait(DUMP_SECONDS)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()
