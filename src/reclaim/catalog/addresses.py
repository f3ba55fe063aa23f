"""Where things lie in the storage. Everything of a repository is below ``repos/<repo_uid>/``."""

from __future__ import annotations

import secrets
from urllib.parse import quote

ROOT = "repos/"
MARKER = "_reclaim_root.json"
"""The object at a storage's root that says which catalog it belongs to."""
HOME = "_reclaim_home.json"
"""The object beside it that says which database may collect there."""


def new_uid() -> str:
    """128 random bits as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def repository(repo_uid: str) -> str:
    return f"{ROOT}{repo_uid}/"


def new_object(repo_uid: str, branch: str, partition: str) -> str:
    """A fresh address for the bytes of an entry; a branch is one percent-encoded segment."""
    segment = quote(branch, safe="")
    return f"{repository(repo_uid)}branches/{segment}/{partition}/{new_uid()}"


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
