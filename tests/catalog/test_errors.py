"""The tree of errors, and the place in it of what libraries raise."""

from __future__ import annotations

import inspect
import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from obstore import exceptions as of_obstore
from sqlalchemy import exc as of_sqlalchemy

from reclaim import errors
from reclaim.catalog.database import transactions
from reclaim.errors import (
    AlreadyExists,
    Corrupt,
    DatabaseLocked,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    NothingToCommit,
    OutOfSpace,
    ReclaimError,
    StorageDenied,
    StorageUnavailable,
    TransactionFailed,
)
from reclaim.storage import translated

# The tree


def documented() -> dict[str, tuple[int, int]]:
    """What the module's docstring says: name → exit code and HTTP status."""
    found: dict[str, tuple[int, int]] = {}
    codes = (0, 0)
    for line in (errors.__doc__ or "").splitlines():
        told = re.match(r"[ │├└─]+([A-Z]\w+(?:, [A-Z]\w+)*)(?: +exit (\d+) +HTTP (\d{3}))?", line)
        if told and ("exit" in line or line.lstrip()[0] in "│├└"):
            if told[2]:
                codes = (int(told[2]), int(told[3]))
            found |= dict.fromkeys(told[1].split(", "), codes)
    return found


CLASSES: list[type[ReclaimError]] = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ReclaimError)
]


def test_the_docstring_draws_the_whole_tree() -> None:
    drawn = documented()
    assert drawn == {kind.__name__: (kind.exit_code, kind.http_status) for kind in CLASSES}
    assert len(drawn) > 25


def test_every_error_has_a_kind_of_its_own() -> None:
    kinds = {kind.kind: kind for kind in CLASSES}
    assert len(kinds) == len(CLASSES)
    for name, kind in kinds.items():
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
        assert name == ("error" if kind is ReclaimError else snake)


def test_every_branch_of_the_tree_has_an_exit_code_of_its_own() -> None:
    branches: list[type[ReclaimError]] = ReclaimError.__subclasses__()
    codes = [ReclaimError.exit_code, *(kind.exit_code for kind in branches)]
    assert len(set(codes)) == len(codes)
    assert all(kind.exit_code > 0 for kind in branches)
    assert all(400 <= kind.http_status < 600 for kind in CLASSES)
    for branch in branches:
        leaves: list[type[ReclaimError]] = branch.__subclasses__()
        # Only who commits asks whether there was anything to commit.
        told = {leaf.exit_code for leaf in leaves if leaf is not NothingToCommit}
        assert told <= {branch.exit_code}
    assert NothingToCommit.exit_code not in codes


def test_a_body_says_kind_message_hint_and_details() -> None:
    plain = errors.NotFound("there is no x")
    assert plain.body() == {"kind": "not_found", "message": "there is no x"}
    assert str(plain) == "there is no x"
    full = errors.MergeConflict("2 paths", hint="choose", count=2, paths=["a", "é"])
    assert full.body() == {
        "kind": "merge_conflict",
        "message": "2 paths",
        "hint": "choose",
        "details": {"count": 2, "paths": ["a", "é"]},
    }
    json.dumps(full.body())


# Foreign errors. New ones in a new version of a library make these tables fail.

FROM_OBSTORE: dict[str, type[ReclaimError]] = {
    "AlreadyExistsError": AlreadyExists,
    "BaseError": StorageUnavailable,
    "GenericError": StorageUnavailable,
    "InvalidPathError": InvalidInput,
    "JoinError": Corrupt,
    "NotFoundError": NotFound,
    "NotModifiedError": StorageUnavailable,
    "NotSupportedError": InvalidInput,
    "PermissionDeniedError": StorageDenied,
    "PreconditionError": AlreadyExists,
    "UnauthenticatedError": StorageDenied,
    "UnknownConfigurationKeyError": InvalidInput,
}


def raised(error: Exception) -> ReclaimError:
    """What the storage's door makes of a foreign error."""
    with pytest.raises(ReclaimError) as caught, translated("read", "a/b"):
        raise error
    assert caught.value.__cause__ is error
    assert "a/b" in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def test_every_error_of_obstore_has_a_place_in_the_tree() -> None:
    foreign: dict[str, Any] = dict(inspect.getmembers(of_obstore, inspect.isclass))
    assert {
        name: type(raised(kind("boom\nmore"))) for name, kind in foreign.items()
    } == FROM_OBSTORE


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(2, "No such file"), NotFound),
        (PermissionError(13, "Permission denied"), StorageDenied),
        (OSError(28, "No space left on device"), OutOfSpace),
        (OSError(122, "Disk quota exceeded"), OutOfSpace),
        (OSError(5, "Input/output error"), StorageUnavailable),
        (ConnectionError("reset"), StorageUnavailable),
        (TimeoutError("slow"), StorageUnavailable),
        (ValueError("wrong"), InvalidInput),
        (of_obstore.GenericError("Generic: No space left on device (os error 28)"), OutOfSpace),
        (of_obstore.GenericError("Generic: Permission denied (os error 13)"), StorageDenied),
    ],
)
def test_errors_of_the_system_have_a_place_in_the_tree(
    error: Exception, kind: type[ReclaimError]
) -> None:
    assert type(raised(error)) is kind


def of_database(error: Exception) -> ReclaimError:
    """What the database's door makes of a foreign error."""
    with pytest.raises(ReclaimError) as caught, transactions.translated("here"):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def foreign_database_errors() -> Iterator[Exception]:
    for _, kind in inspect.getmembers(of_sqlalchemy, inspect.isclass):
        if issubclass(kind, Exception) and not issubclass(kind, Warning):
            error = kind.__new__(kind)
            error.args = ("boom",)
            # Constructors differ; these are what their texts are made of.
            vars(error).update(
                message="boom", statement=None, params=None, orig=None, detail=[], code=None
            )
            yield error


def test_every_error_of_sqlalchemy_has_a_place_in_the_tree() -> None:
    found = {type(error).__name__: error for error in foreign_database_errors()}
    # Only asyncio drivers raise it, and SQLAlchemy wraps it.
    found.pop("EmulatedDBAPIException", None)
    assert len(found) > 40
    kinds = {name: type(of_database(error)) for name, error in found.items()}
    for name, kind in kinds.items():
        wrong_url = isinstance(found[name], of_sqlalchemy.ArgumentError)
        assert (name, kind) == (name, InvalidInput if wrong_url else DatabaseUnavailable)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("UNIQUE constraint failed: tags.name", transactions.LostRace),
        ("database is locked", DatabaseLocked),
        ("database table is locked", DatabaseLocked),
        ("database or disk is full", OutOfSpace),
        ("file is not a database", Corrupt),
        ("database disk image is malformed", Corrupt),
        ("no such table: commits", NotFound),
        ("attempt to write a readonly database", DatabaseUnavailable),
        ("disk I/O error", DatabaseUnavailable),
        ("unable to open database file", DatabaseUnavailable),
    ],
)
def test_what_sqlite_says_has_a_place_in_the_tree(said: str, kind: type[ReclaimError]) -> None:
    bare = sqlite3.OperationalError(said)
    assert type(of_database(bare)) is kind
    assert type(of_database(of_sqlalchemy.OperationalError("SELECT 1", {}, bare))) is kind


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("23505", TransactionFailed),
        ("40001", TransactionFailed),
        ("40P01", TransactionFailed),
        ("55P03", DatabaseLocked),
        ("53100", OutOfSpace),
        ("42P01", NotFound),
        ("25006", DatabaseUnavailable),
        ("42501", DatabaseUnavailable),
        ("57P01", DatabaseUnavailable),
        ("53300", DatabaseUnavailable),
    ],
)
def test_what_postgresql_says_has_a_place_in_the_tree(state: str, kind: type[ReclaimError]) -> None:
    bare = psycopg.errors.lookup(state)("boom")
    assert isinstance(of_database(of_sqlalchemy.DBAPIError("SELECT 1", {}, bare)), kind)
