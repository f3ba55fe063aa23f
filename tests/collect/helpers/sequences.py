"""Short sequences of the machine's rules, each of which goes through one hole that there once was.

Random search comes by them now and then. Here they are written down, so that each is gone through
every time; the machine runs its own rules and makes all of its checks.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from tests.collect.helpers.aside_machine import HOUR, WEEK
from tests.collect.helpers.quarantine_machine import QuarantineMachine
from tests.collect.helpers.removals import ENABLED, SUSPENDED


class Simplest:
    """Stands in for Hypothesis, and makes the simplest choice of each kind."""

    def draw(self, _strategy: st.SearchStrategy[Any], label: str) -> Any:
        return {"branch": "main", "plan": 0, "commit": 0}[label]


SIMPLEST = Simplest()


@dataclass(frozen=True)
class Step:
    """A rule of the machine, with what it is called with."""

    rule: str
    arguments: Mapping[str, Any]


def follow(machine: QuarantineMachine, steps: Sequence[Step]) -> None:
    """Take a machine through a sequence of its rules; at the end all that is owed comes back."""
    try:
        for step in steps:
            rule = getattr(machine, step.rule)
            needs_data = "data" in inspect.signature(rule).parameters
            rule(**step.arguments, **({"data": SIMPLEST} if needs_data else {}))
        machine.bring_all_back()
    finally:
        machine.close()


def step(rule: str, **arguments: Any) -> Step:
    return Step(rule, arguments)


SET_ASIDE = step("set_aside", keep=WEEK, dies=None, undone=False)
SHORTLY = step("set_aside", keep=HOUR, dies=None, undone=False)
UNDO, BLIND_UNDO = (
    step("undo", which=0, how=how, dies=1, point="", what=0) for how in ("whole", "blind")
)
AGE = step("wait", by=timedelta(days=2), close=True)
COLLECT = step("collect")
CLEAR = step("clear_homes")
ON, SUSPEND = (step("switch_versioning", status=status) for status in (ENABLED, SUSPENDED))
PURGE_ALL = step("purge", older=timedelta(0), dies=None)
PURGE_DUE = step("purge", older=None, dies=None)
DEAD = step("revive", what=5)
PLAN, APPLY = step("plan", options={}, margin=timedelta(0)), step("apply")
WRITE = step("write_to_a_home", which=-1, same_size=True)
"""To the last of them, which is data that the last commit alone needs."""
LEAVE_OUT, LEAVE_OUT_MORE = (
    step("leave_out", which=which, keep=WEEK, dies=None) for which in ({0}, {0, 1, 2, 3, 4})
)
LEAVE_OUT_AGAIN = step("leave_out_again", which={0, 1})
HALFWAY = step("ends_halfway", nth=5, keep=WEEK)
ODD_KEYS = tuple(
    step("leave_an_odd_key", place=place) for place in ("object", "partition", "container")
)
ODD_KEY_ASIDE = step("leave_an_odd_key", place="quarantine")
UPLOADS = tuple(
    step("give_up_uploads", old=old, writing=writing)
    for old, writing in ((True, False), (True, True), (False, False))
)
IN_PARTS = step("copy_in_parts")


def dying(rule: Step, at: str) -> Step:
    """The same, in a process that ends at a step."""
    how = {"how": "dies"} if rule.rule == "undo" else {}
    return Step(rule.rule, {**rule.arguments, **how, "dies": at})


LOCAL, BUCKET = "local", "moves in a bucket"
MARKERS, MARKERS_OFF = "markers, versioning on", "markers, versioning off"
SUSPENDED_MARKERS = "markers, versioning suspended"

SEQUENCES: dict[str, tuple[str, Sequence[Step]]] = {
    "an undo that was cut off, and a collection": (
        LOCAL,
        (SET_ASIDE, dying(UNDO, "before restore"), AGE, COLLECT, UNDO),
    ),
    "an apply and an undo that were repeated": (
        LOCAL,
        (dying(SET_ASIDE, "before set_aside"), APPLY, dying(UNDO, "before restore"), UNDO),
    ),
    "other bytes at a home": (LOCAL, (SET_ASIDE, WRITE, UNDO, CLEAR, UNDO)),
    "a listing that is not complete": (LOCAL, (SET_ASIDE, BLIND_UNDO)),
    "an apply that ended halfway, and a collection": (LOCAL, (HALFWAY, AGE, COLLECT, UNDO)),
    "a part of a commit, and a collection": (LOCAL, (step("bury_late"), AGE, COLLECT, UNDO)),
    "a part of a commit that counts as set aside": (
        LOCAL,
        (step("bury_in_parts"), AGE, COLLECT, UNDO),
    ),
    "an apply that died before it settled, and a shorter window": (
        LOCAL,
        (dying(SET_ASIDE, "before set_aside"), AGE, SHORTLY, AGE, PURGE_DUE, UNDO),
    ),
    "what was left out, and a collection": (LOCAL, (LEAVE_OUT_MORE, AGE, COLLECT, UNDO)),
    "what was left out, and the same plan": (LOCAL, (LEAVE_OUT, APPLY, AGE, COLLECT, UNDO)),
    "left out after an apply that died": (
        LOCAL,
        (dying(SET_ASIDE, "before set_aside"), LEAVE_OUT_AGAIN, AGE, COLLECT, UNDO),
    ),
    "left out of what markers cover": (MARKERS, (LEAVE_OUT_MORE, AGE, COLLECT, UNDO)),
    "other bytes over a copy": (BUCKET, (SET_ASIDE, WRITE, UNDO, CLEAR, UNDO)),
    "two plans of the same": (MARKERS, (step("overlap", delete=False), AGE, PURGE_DUE, UNDO)),
    "a purge of a run that ended halfway": (
        MARKERS,
        (HALFWAY, step("delete_what_was_spared", which=0), PURGE_ALL),
    ),
    "a purge of a run that ended halfway, and another run": (
        MARKERS,
        (step("ends_halfway", nth=5, keep=HOUR), SET_ASIDE, AGE, PURGE_DUE, UNDO),
    ),
    "other bytes over a marker": (MARKERS, (SET_ASIDE, WRITE, UNDO, CLEAR, UNDO)),
    "versioning suspended in between": (
        MARKERS_OFF,
        (DEAD, ON, PLAN, APPLY, SUSPEND, UNDO, PURGE_ALL, ON, UNDO),
    ),
    "versioning switched with every run": (
        SUSPENDED_MARKERS,
        (SET_ASIDE, ON, SET_ASIDE, SUSPEND, UNDO, ON, UNDO),
    ),
    "other bytes while versioning is suspended": (
        MARKERS_OFF,
        (DEAD, ON, PLAN, APPLY, SUSPEND, WRITE, ON, UNDO),
    ),
    "odd keys": (LOCAL, (*ODD_KEYS, SET_ASIDE, ODD_KEY_ASIDE, UNDO, AGE, COLLECT)),
    "odd keys in a bucket": (BUCKET, (*ODD_KEYS, SET_ASIDE, ODD_KEY_ASIDE, PURGE_ALL)),
    "odd keys under markers": (MARKERS, (*ODD_KEYS, SET_ASIDE, UNDO, AGE, COLLECT)),
    "uploads that were never finished": (BUCKET, (*UPLOADS, SET_ASIDE, UNDO)),
    "copies in parts": (BUCKET, (IN_PARTS, SET_ASIDE, UNDO)),
    "copies in parts, of what markers cover": (MARKERS, (IN_PARTS, SET_ASIDE, UNDO)),
    "markers that were not written": (MARKERS, (dying(SET_ASIDE, "bucket cover"), UNDO)),
    "markers without a journal, and a purge": (
        MARKERS,
        (dying(SET_ASIDE, "journal.json"), PURGE_ALL),
    ),
    "markers that were repeated": (
        MARKERS,
        (dying(SET_ASIDE, "journal.json"), APPLY, dying(UNDO, "before restore"), UNDO),
    ),
}
