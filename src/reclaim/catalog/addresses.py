"""Where things lie in the storage. Everything of a repository is below ``repos/<repo_uid>/``."""

from __future__ import annotations

import hashlib
import re

from reclaim.ids import new_uid

ROOT = "repos/"
MARKER = "_reclaim_root.json"
"""The object at a storage's root that says which catalog it belongs to."""
HOME = "_reclaim_home.json"
"""The object beside it that says which database may collect there."""
PARTITION = "[0-9a-f]{14}_[0-9a-f]{32}"
"""The name of a partition, as a regular expression."""
LONGEST_SEGMENT = 200
"""File systems take 255 bytes, and some storages add to a name while they write."""

_UNSAFE = re.compile(r"[^a-z0-9._-]")
_CUT_ESCAPE = re.compile(r"%[0-9A-F]?$")


def is_partition(name: str) -> bool:
    """Whether a folder has a name that a partition can have."""
    return re.fullmatch(PARTITION, name) is not None


def repository(repo_uid: str) -> str:
    return f"{ROOT}{repo_uid}/"


def new_object(repo_uid: str, branch: str, partition: str, number: int) -> str:
    """A fresh address for the bytes of an entry; a branch is one percent-encoded segment.

    The last part begins with a number that grows within the partition, so that a database which
    sorts by addresses adds new ones at one place.
    """
    name = f"{number:08x}{new_uid()[8:]}"
    return f"{repository(repo_uid)}branches/{segment(branch)}/{partition}/{name}"


def segment(branch: str) -> str:
    """The name of a branch's folder: another one for each branch, on every file system.

    Capital letters are percent-encoded too, for a file system may not tell them from small ones.
    A name that would be too long for a folder ends in a hash instead.
    """
    encoded = _UNSAFE.sub(_escape, branch)
    if len(encoded) <= LONGEST_SEGMENT:
        return encoded
    digest = hashlib.sha256(branch.encode()).hexdigest()
    # A tilde is in no name that is encoded whole; an escape is not cut in two.
    return f"{_CUT_ESCAPE.sub('', encoded[: LONGEST_SEGMENT - 65])}~{digest}"


def _escape(character: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in character[0].encode())


def new_container(repo_uid: str, partition: str, digest: str) -> str:
    """A fresh address for a range or metarange whose rows have this hash."""
    return f"{repository(repo_uid)}_reclaim/meta/{partition}/{digest}-{new_uid()}"


def digest_of(container: str) -> str:
    """The hash in a container's name."""
    return container.rsplit("/", 1)[-1].partition("-")[0]


def epochs(repo_uid: str) -> str:
    return f"{repository(repo_uid)}_reclaim/epoch/"


def epoch(repo_uid: str, number: int) -> str:
    return f"{epochs(repo_uid)}{number:020d}"


def run(repo_uid: str, run_id: str) -> str:
    """The folder of one run."""
    return f"{repository(repo_uid)}_reclaim/runs/{run_id}/"


def is_external(address: str) -> bool:
    """An address outside the storage's ``repos/`` is a whole URL and is never collected."""
    return "://" in address
