"""The class archive (class data sharing of Java): Spark's loaded classes, in the user's cache
folder.

Half of the start-up time of a session goes into loading and checking some ten thousand classes.
Java can dump them to an archive and map it into memory the next time. An archive fits exactly one
Java and class path; Java compares both, and a checksum, and ignores an archive with a difference. A
truncated archive would crash Java, so its length is stored in a file beside it. A bad archive costs
time only.
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
"""Archives unused for this long are removed when another archive is made."""
FOLDER_VARIABLES = (
    "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
)
"""Variables that add to the class path."""
HARMLESS = ("-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:cds*=off")
"""Options to ignore an archive that is damaged or does not fit, without a message."""

_CHOSEN_BY_USER = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")
# Words Spark parses as a shell would.
_PLAIN = re.compile(r"[A-Za-z0-9_./+@%,: -]+")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for the Java and Spark of this process, existing or not."""

    file: Path

    @classmethod
    def find(cls) -> ClassArchive | None:
        """Return the archive to use or make; None if archives are off or impossible."""
        folder, java, spark = _folder(), _java_home(), _spark_home()
        if folder is None or java is None or spark is None or _has_folders(spark):
            return None
        release = _text(java / "release")
        version = re.search(r'^JAVA_VERSION="([0-9A-Za-z.+_-]+)"', release, re.MULTILINE)
        # The location of both is a part of the class path.
        identity = "\n".join([str(java), release, str(spark), *_jars(spark)])
        digest = sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]
        name = f"spark-{_spark_version()}-java-{version[1] if version else 'unknown'}-{digest}"
        return cls(folder / (name + ENDING))

    @property
    def exists(self) -> bool:
        """Return whether the archive is complete and only this user can write it: its classes are
        run."""
        try:
            length = int(self.length.read_text())
            is_whole = self.file.stat().st_size == length > 0
        except (OSError, ValueError):
            return False
        return is_whole and all(_is_ours(path) for path in (self.file, self.file.parent))

    @property
    def length(self) -> Path:
        """File with the length of the archive."""
        return self.file.with_suffix(".length")

    def options_to_use(self, options: str) -> str:
        """Return options of Java, with those to use the archive if it exists."""
        if not self.exists or any(word in options for word in _CHOSEN_BY_USER):
            return options
        with suppress(OSError):
            os.utime(self.file)
        return f'{options} "-XX:SharedArchiveFile={self.file}" {" ".join(HARMLESS)}'.strip()

    def options_to_write(self, options: str, file: Path) -> str:
        """Return options of Java, with the option to write an archive at exit."""
        return f'{options} "-XX:ArchiveClassesAtExit={file}"'.strip()

    def remove_unused(self) -> None:
        """Remove archives of other versions unused for long."""
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
        # There is no home folder, or no working folder.
        return None
    return folder if _PLAIN.fullmatch(str(folder)) else None


def _cache(named: str) -> Path:
    # The specification of the variable says to ignore relative paths.
    return Path(named) if named.startswith("/") else Path.home() / ".cache"


def _java_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return None
    return Path(java).resolve().parent.parent


def _spark_home() -> Path | None:
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    package = find_spec("pyspark")
    return None if package is None or not package.origin else Path(package.origin).parent


def _spark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        # It is part of a Spark that was never installed.
        return "unknown"


def _has_folders(spark: Path) -> bool:
    """Return whether the class path has folders with files, for which Java makes no archive."""
    if any(os.environ.get(name) for name in FOLDER_VARIABLES):
        return True
    try:
        return any((spark / "conf").iterdir())
    except OSError:
        return False


def _jars(spark: Path) -> Sequence[str]:
    try:
        jars = [(entry.name, entry.stat()) for entry in os.scandir(spark / "jars")]
    except OSError:
        return ()
    return sorted(f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in jars)


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
