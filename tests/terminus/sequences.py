"""Short sequences of the troubled machine's rules, each through one hole that there once was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.terminus.troubled_machine import TroubledMachine
from tests.terminus.troubles import TROUBLES

Step = tuple[str, Mapping[str, Any]]


def step(rule: str, **arguments: Any) -> Step:
    return rule, arguments


def follow(machine: TroubledMachine, steps: Sequence[Step]) -> None:
    """Take a machine through a sequence of its rules, with its checks after each."""
    try:
        for name, arguments in steps:
            getattr(machine, name)(**arguments)
            machine.everything_live_is_whole()
            machine.strays_are_left_alone()
    finally:
        machine.teardown()


BURY = step("bury", archives=False)
SET_ASIDE = step("set_aside")
COLLECT = step("collect_all")
PURGE = step("end_quarantine", events=[])
BOTH = (True, False)

SEQUENCES: dict[str, Sequence[Step]] = {
    "notes in a quarantine": tuple(step("want_again", lists_are_lost=lost) for lost in BOTH),
    "files in the wrong shard": (
        *(step("misplace_a_file", name="{}.larch", whole=whole) for whole in BOTH),
        step("misplace_a_file", name="{}.rollup.hex", whole=False),
        BURY,
        COLLECT,
    ),
    **{
        trouble: (
            BURY,
            SET_ASIDE,
            BURY,
            step("trouble_comes_and_goes", trouble=trouble),
            PURGE,
        )
        for trouble in TROUBLES
    },
    "what was torn is written again": tuple(
        step("write_again_what_was_torn", archives=archives, step=at)
        for archives in BOTH
        for at in ("", "survey")
    ),
    "what is torn after the plan": tuple(
        step("tear_after_the_plan", archives=archives) for archives in BOTH
    ),
    "a young layer above a torn one": (step("build_on_what_is_torn"),),
    "labels that move": (step("swap_labels"),),
    "other bytes at a home": tuple(step("write_to_a_home", archives=archives) for archives in BOTH),
    "notes beside": (
        *(step("leave_a_note_beside", folder=folder) for folder in ("lock", "leases", "runs")),
        BURY,
        SET_ASIDE,
        PURGE,
    ),
    "a record that is lost": (BURY, SET_ASIDE, step("lose_a_record"), PURGE),
    "a lease for years": (step("hold_for_years"), BURY, COLLECT),
    "a holder that slept": (step("sleep_while_renewing"),),
}
