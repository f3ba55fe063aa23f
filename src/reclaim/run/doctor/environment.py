"""The needs of a run beside a store: Java, Spark, a bucket that frees what is deleted."""

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
    """Where Java is and its version ("" if it does not say), without starting it."""
    home = os.environ.get("JAVA_HOME")
    named = str(Path(home) / "bin" / "java") if home else ""
    found = named if named and Path(named).exists() else shutil.which("java")
    if not found:
        return None
    release = Path(found).resolve().parent.parent / "release"
    text = release.read_text(encoding="utf-8") if release.is_file() else ""
    told = re.search(r'^JAVA_VERSION="([^"]*)"', text, re.MULTILINE)
    return found, told[1] if told else ""


def major(java_version: str) -> int:
    """The first number of a version; 0 if it has none."""
    told = re.match(r"(?:1\.)?(\d+)", java_version)
    return int(told[1]) if told else 0


def spark() -> str | None:
    """The version of PySpark that is installed, without importing it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def started(session: Any) -> tuple[str, str]:
    """The versions of Spark and of its Java, from a session that runs."""
    query = "SELECT java_method('java.lang.System', 'getProperty', 'java.version') AS java"
    return session.version, session.sql(query).collect()[0]["java"]


def kept_by_bucket(url: str) -> list[str] | None:
    """Why deletes in a bucket free nothing, as sentences; None when that could not be asked."""
    try:
        bucket = open_bucket(url)
        versioning = bucket.versioning()
    except (InvalidInput, StorageUnavailable):
        return None
    found = []
    if versioning:
        found.append(f"versioning of {bucket.name} is {versioning}: old versions stay")
    if bucket.locked():
        found.append(f"{bucket.name} has an object lock: locked versions cannot be deleted")
    return found
