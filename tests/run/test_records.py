"""The record of a run: as text and back, and from before records had versions."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from reclaim.model import instant_text
from reclaim.run_record import (
    COLLECT,
    QUARANTINE_ENDED,
    VERSION,
    EditCounts,
    GivenUp,
    LeftOut,
    Operator,
    Phase,
    ProtectedMemory,
    Quarantine,
    RecordedEdit,
    RecordedLifecycle,
    RecordedPurge,
    RecordedRule,
    RunCounts,
    RunRecord,
    SavedManifest,
    decode,
)

WHEN = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
TEXT = instant_text(WHEN)
FULL = RunRecord(
    "r",
    COLLECT,
    Phase.PARTIAL,
    WHEN,
    "file:///plans/r",
    (Operator("me", "here", "reclaim gc"),),
    promised=Quarantine("moved", WHEN, WHEN, (WHEN,)),
    intended=7,
    counts=RunCounts(1, 2, 3, 4, 5, 6, 7, 8),
    edit=RecordedEdit(EditCounts(1, 2, ("old",)), True, "a file", 1, 2, True, ("a ref",)),
    left_out=LeftOut(("*.csv",), 1, 2, "a folder"),
    lists={"x/journal.json": ("a", "b"), "y/intended.json": ()},
    plan="a digest",
    vouched=True,
    compared=True,
    protected=ProtectedMemory(3, "memory", "hash"),
    checkpoint=SavedManifest("checkpoint", "hash"),
    lifecycle=RecordedLifecycle(
        "2026-01-02",
        ("logs",),
        "full",
        1,
        (RecordedRule("logs", "logs/", "main", date(2026, 1, 2)),),
        4,
    ),
    given_up=GivenUp(WHEN, 5, 4, 1),
    purge=RecordedPurge(("a",), ("b",)),
    purged_by="p",
    partitions=1,
    finished_at=WHEN,
    error="corrupt",
    hint="look",
)

# As versions of before wrote them: kind, state, and the facts in one flat summary.
QUARANTINED: dict[str, Any] = {
    "quarantine": "moved",
    "since": "2026-01-02T03:04:05.000006+00:00",
    "until": TEXT,
    "intended": 3,
    "objects": 3,
    "bytes": 10,
    "condemned": 2,
    "collected": 2,
    "reparented": 1,
    "released": 2,
    "deleted_refs": ["old"],
    "exclude": ["*.csv"],
    "excluded": 1,
    "excluded_bytes": 5,
    "excluded_list": "a folder",
    "lists": {"x/journal.json": ["a"]},
    "plan": "a digest",
    "vouched": True,
    "promoted": True,
    "finished_at": TEXT,
}
LEFT = {"reparented": 0, "edit_taken_back": True, "left": ["a ref"], "error": "corrupt"}
OLD: dict[str, tuple[str, str, dict[str, Any], Phase]] = {
    "started": (COLLECT, "started", {"condemned": 0, "intended": 0}, Phase.PROMOTING),
    "promoted": (COLLECT, "started", {"promoted": True}, Phase.PROMOTED),
    "a purge that started": ("purge", "started", {}, Phase.STARTED),
    "an edit that started": ("expire", "started", {"reparented": 0}, Phase.STARTED),
    "stopped": (COLLECT, "stopped", LEFT, Phase.STOPPED),
    "partial": (COLLECT, "partial", {"objects": 1, "failed": 1}, Phase.PARTIAL),
    "done": (COLLECT, "done", QUARANTINED, Phase.DONE),
    "empty": (COLLECT, "done", {"objects": 0, "bytes": 0}, Phase.DONE),
    "undoing": (COLLECT, "partial", QUARANTINED | {"undos": [TEXT]}, Phase.UNDOING),
    "giving up": (
        COLLECT,
        "partial",
        {"given_up": TEXT, "claimed": 5, "released": 4, "gone": 1, "lifecycle": {"today": "x"}},
        Phase.UNDOING,
    ),
    "purging": (COLLECT, "done", QUARANTINED | {"purge_begun": TEXT}, Phase.PURGING),
    "purging, incomplete": (
        COLLECT,
        "partial",
        QUARANTINED | {"purge_begun": TEXT, "undos": [TEXT]},
        Phase.PURGING,
    ),
    "undone": (COLLECT, "undone", QUARANTINED | {"undos": [TEXT]}, Phase.UNDONE),
    "purged": (COLLECT, "purged", QUARANTINED | {"purged_by": "p"}, Phase.PURGED),
    "a purge": (
        "purge",
        "done",
        {"runs": ["a"], "skipped": [], "objects": 3, "rescued": 1, "collected": 2},
        Phase.DONE,
    ),
    "an adoption": ("adopt", "done", {"partitions": 2}, Phase.DONE),
}


def old(kind: str, state: str, summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "r",
        "kind": kind,
        "state": state,
        "started_at": WHEN.isoformat(),
        "summary": summary,
        "place": "somewhere",
        "operators": [{"user": "me", "host": "here", "command": "reclaim gc"}],
    }


@pytest.mark.parametrize("phase", Phase)
def test_a_record_is_read_as_it_was_written(phase: Phase) -> None:
    record = replace(FULL, phase=phase)
    read = decode(json.loads(record.encode()))
    assert (read, read.operators) == (record, record.operators)
    bare = RunRecord("r", COLLECT, phase, WHEN)
    assert decode(json.loads(bare.encode())) == bare


@pytest.mark.parametrize("name", OLD)
def test_a_record_of_before_versions(name: str) -> None:
    kind, state, summary, phase = OLD[name]
    record = decode(old(kind, state, summary))
    assert (record.kind, record.phase, record.version) == (kind, phase, VERSION)
    assert (record.started_at, record.place, len(record.operators)) == (WHEN, "somewhere", 1)
    # Each fact that it had is there; times end with Z, and the phase tells of the promotion.
    told = record.summary()
    for fact, value in summary.items():
        if fact == "promoted":
            assert record.promoted
        elif fact == "since":
            assert told[fact] == TEXT
        elif value not in (0, [], False):
            assert told[fact] == value, fact
    assert decode(json.loads(record.encode())) == record


def test_an_old_run_that_is_being_purged_knows_whether_it_was_finished() -> None:
    whole, incomplete = (decode(old(*OLD[name][:3])) for name in ("purging", "purging, incomplete"))
    assert (whole.finished, whole.unfinished, whole.undoing) == (True, False, False)
    assert (incomplete.finished, incomplete.unfinished, incomplete.undoing) == (False, True, True)


def test_the_checkpoint_of_an_older_lifecycle_run() -> None:
    """Once it was a fact of its own, then a part of the rules; now a run has one at most."""
    saved = {"address": "a/checkpoint.json", "sha256": "hash"}
    before = old(COLLECT, "done", {"lifecycle": {"today": "x"}, "lifecycle_checkpoint": saved})
    with_version = json.loads(RunRecord("r", COLLECT, Phase.DONE, WHEN).encode())
    with_version["lifecycle"] = {"today": "x", "checkpoint": saved}
    for document in (before, with_version):
        record = decode(document)
        assert record.checkpoint == SavedManifest(**saved)
        assert record.lifecycle == RecordedLifecycle("x")


def test_an_unknown_fact_of_an_older_version_is_no_damage() -> None:
    assert decode(old(COLLECT, "done", {"a fact": 1})) == decode(old(COLLECT, "done", {}))


@pytest.mark.parametrize("phase", QUARANTINE_ENDED)
def test_a_quarantine_that_has_ended(phase: Phase) -> None:
    ended = replace(FULL, phase=phase)
    assert (ended.quarantine, ended.undoing, ended.unfinished) == (None, False, False)
    assert ended.promised == FULL.promised


def test_a_run_that_deleted() -> None:
    assert decode(old(COLLECT, "done", {"intended": 3, "objects": 3})).quarantine is None


@pytest.mark.parametrize(
    "damage",
    [
        {"quarantine": 5},
        {"since": 5},
        {"until": "soon"},
        {"until": "2026-01-03T00:00:00"},
        {"undos": "yesterday"},
        {"undos": [None]},
        {"intended": "many"},
        {"lists": []},
    ],
    ids=str,
)
def test_a_record_that_is_damaged(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"removal|since|promised|until|undos|intended|lists"):
        decode(old(COLLECT, "done", QUARANTINED | damage))


@pytest.mark.parametrize(
    "damage",
    [
        {"version": VERSION + 1},
        {"version": "1"},
        {"phase": "somewhere"},
        {"a part": 1},
        {"edit": {"a part": 1}},
        {"started_at": "2026-01-03T00:00:00"},
    ],
    ids=str,
)
def test_a_record_that_is_not_of_this_version(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"version|phase|part|started_at|time zone"):
        decode(json.loads(FULL.encode()) | damage)
