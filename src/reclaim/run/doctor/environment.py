"""Requirements of a run besides a store: Java, Spark, and a bucket that frees deleted space."""

from __future__ import annotations

import os
import re
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from reclaim.errors import InvalidInput, StorageUnavailable
from reclaim.storage.buckets import open_bucket

OLDEST_JAVA = 17


def java() -> tuple[str, str] | None:
    """Path and version of Java ("" if unknown), without starting it."""
    home = os.environ.get("JAVA_HOME")
    named = str(Path(home) / "bin" / "java") if home else ""
    path = named if named and Path(named).exists() else shutil.which("java")
    if not path:
        return None
    release = Path(path).resolve().parent.parent / "release"
    text = release.read_text(encoding="utf-8") if release.is_file() else ""
    match = re.search(r'^JAVA_VERSION="([^"]*)"', text, re.MULTILINE)
    return path, match[1] if match else ""


def major(java_version: str) -> int:
    """First number of a version; 0 if there is none."""
    match = re.match(r"(?:1\.)?(\d+)", java_version)
    return int(match[1]) if match else 0


def spark() -> str | None:
    """Version of the installed PySpark, without importing it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def started(session: Any) -> tuple[str, str]:
    """Versions of Spark and of its Java, from a running session."""
    query = "SELECT java_method('java.lang.System', 'getProperty', 'java.version') AS java"
    return session.version, session.sql(query).collect()[0]["java"]


def kept_by_bucket(url: str) -> list[str] | None:
    """Reasons why deletes in a bucket free no space, as sentences; None if unknown."""
    try:
        bucket = open_bucket(url)
        versioning = bucket.versioning()
    except (InvalidInput, StorageUnavailable):
        return None
    reasons = []
    if versioning:
        reasons.append(f"versioning of {bucket.name} is {versioning}: old versions stay")
    if bucket.locked():
        reasons.append(f"{bucket.name} has an object lock: locked versions cannot be deleted")
    return reasons
