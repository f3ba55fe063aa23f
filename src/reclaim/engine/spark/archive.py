"""The class archive: Spark's classes, as Java has loaded them before, in the user's cache folder.

Half of the time in which a session starts goes into loading and checking some ten thousand
classes. Java can write them down and map them into memory the next time. An archive fits one Java
and one class path; Java compares both, and a checksum, and goes on without an archive that does
not fit. One that was cut off would end Java, so its length is written down beside it. Whatever is
wrong with an archive costs time only.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from reclaim.clock import SystemClock

VARIABLE = "RECLAIM_SPARK_ARCHIVE"
"""``off``, or the folder of the archives."""
OFF = "off"
ENDING = ".jsa"
USED_WITHIN = timedelta(days=30)
"""Archives that were not used for so long are removed when another one is made."""
FOLDER_VARIABLES = (
    "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
)
"""Variables that add to the class path."""
HARMLESS = ("-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:cds*=off")
"""Java goes on without an archive that does not fit or is damaged, and says nothing of it."""

_CHOSEN_BY_USER = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")
# Words that Spark takes apart as a shell would.
_PLAIN = re.compile(r"[A-Za-z0-9_./+@%,: -]+")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for the Java and the Spark of this process, whether it is there or not."""

    file: Path

    @classmethod
    def find(cls) -> ClassArchive | None:
        """The archive to use or to make; None where there is to be none."""
        folder, java, spark = _folder(), _java_home(), _spark_home()
        if folder is None or java is None or spark is None or _has_folders(spark):
            return None
        release = _text(java / "release")
        told = re.search(r'^JAVA_VERSION="([0-9A-Za-z.+_-]+)"', release, re.MULTILINE)
        # Where the two are is a part of the class path.
        identity = "\n".join([str(java), release, str(spark), *_jars(spark)])
        digest = sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]
        name = f"spark-{_spark_version()}-java-{told[1] if told else 'unknown'}-{digest}"
        return cls(folder / (name + ENDING))

    @property
    def is_there(self) -> bool:
        """Whether it is whole, and ours: what is in it is run, so nobody else may write there."""
        try:
            length = int(self.length.read_text())
            is_whole = self.file.stat().st_size == length > 0
        except (OSError, ValueError):
            return False
        return is_whole and all(_is_ours(path) for path in (self.file, self.file.parent))

    @property
    def length(self) -> Path:
        """A file that says how long the archive is."""
        return self.file.with_suffix(".length")

    def used_by(self, options: str) -> str:
        """Options of Java with those that use the archive, if it is there."""
        if not self.is_there or any(word in options for word in _CHOSEN_BY_USER):
            return options
        with suppress(OSError):
            os.utime(self.file)
        return f'{options} "-XX:SharedArchiveFile={self.file}" {" ".join(HARMLESS)}'.strip()

    def written_by(self, options: str, file: Path) -> str:
        """Options of Java with that which writes an archive when it ends."""
        return f'{options} "-XX:ArchiveClassesAtExit={file}"'.strip()

    def remove_unused(self) -> None:
        """Remove archives of other versions that nobody has used for long."""
        for path in self.file.parent.glob(f"spark-*{ENDING}"):
            if path != self.file and not _is_younger(path, USED_WITHIN):
                for unused in (path, path.with_suffix(".length")):
                    with suppress(OSError):
                        unused.unlink()


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE, "")
    if named.lower() == OFF:
        return None
    cache = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(named) if named else _cache(cache) / "reclaim"
        folder = folder.absolute()
    except (OSError, RuntimeError):
        # There is no home, or no working folder.
        return None
    return folder if _PLAIN.fullmatch(str(folder)) else None


def _cache(named: str) -> Path:
    # A relative one is to be ignored, by the specification of the variable.
    return Path(named) if named.startswith("/") else Path.home() / ".cache"


def _java_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        return None
    return Path(found).resolve().parent.parent


def _spark_home() -> Path | None:
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    package = find_spec("pyspark")
    return None if package is None or not package.origin else Path(package.origin).parent


def _spark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        # It lies beside Spark, where nobody installed it.
        return "unknown"


def _has_folders(spark: Path) -> bool:
    """Whether the class path has folders with files, of which Java makes no archive."""
    if any(os.environ.get(name) for name in FOLDER_VARIABLES):
        return True
    try:
        return any((spark / "conf").iterdir())
    except OSError:
        return False


def _jars(spark: Path) -> Sequence[str]:
    try:
        found = [(entry.name, entry.stat()) for entry in os.scandir(spark / "jars")]
    except OSError:
        return ()
    return sorted(f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in found)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_ours(path: Path) -> bool:
    try:
        state = path.stat()
    except OSError:
        return False
    return state.st_uid == os.getuid() and not state.st_mode & 0o022


def _is_younger(path: Path, age: timedelta) -> bool:
    try:
        since = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return False
    return SystemClock().now() - since < age
