"""Makes the class archive, when somebody asks for it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark import SparkContext

from reclaim.engine.base import Engine
from reclaim.engine.spark.archive import OFF, VARIABLE, ClassArchive
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.spark.session import LOCAL, build_session, java_options

Workload = Callable[[Engine, Path], None]
"""Does with an engine, in a folder, what engines are used for."""

DUMP_SECONDS = 600
"""How long Java may take to end. It writes the archive then."""


def make_archive(archive: ClassArchive, workload: Workload) -> bool:
    """Make an archive of the classes that a workload needs, and say whether it is there now.

    The archive gets its name when it is whole.
    """
    folder = archive.file.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if archive.is_there:
        return True
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder) as name:
        written = Path(name) / archive.file.name
        _write(archive, written, workload)
        if not written.is_file() or not written.stat().st_size:
            return False
        written.chmod(0o600)
        length = Path(name) / "length"
        length.write_text(str(written.stat().st_size))
        # Of two processes one can leave its length beside the archive of the other, which is not
        # used then.
        written.replace(archive.file)
        length.replace(archive.length)
    archive.remove_unused()
    return archive.is_there


def _write(archive: ClassArchive, file: Path, workload: Workload) -> None:
    # This session must not use another archive of the same name.
    os.environ[VARIABLE] = OFF
    options = archive.written_by(java_options(), file)
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
        # Java ends when nobody writes to it any more.
        if java.stdin is not None:
            java.stdin.close()
        try:
            java.wait(DUMP_SECONDS)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()
