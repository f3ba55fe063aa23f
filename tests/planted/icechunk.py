"""Bugs of Icechunk repositories."""

from __future__ import annotations

from tests.planted.bug import Bug

DECODERS = "tests/icechunk/test_decoders.py"
PLAN = "tests/icechunk/test_plan.py"

BUGS: dict[str, Bug] = {
    "fields of a later version of Icechunk are passed over": Bug(
        "reclaim.stores.icechunk.flatbuffer",
        right="            if self._field(slot, 1):\n",
        wrong="            if self._field(slot, 1) < 0:\n",
        test=f"{DECODERS}::test_later_versions_are_refused[spec 1]",
    ),
    "what is in reserved fields of Icechunk is passed over": Bug(
        "reclaim.stores.icechunk.flatbuffer",
        right="            if at is not None and self.buffer.vector(at, 1)[1]:\n",
        wrong="            if at is not None and self.buffer.vector(at, 1)[1] < 0:\n",
        test=f"{DECODERS}::test_later_versions_are_refused[spec 1]",
    ),
    "a manifest under another name counts": Bug(
        "reclaim.stores.icechunk.format",
        right="            if wanted != found:\n",
        wrong="            if wanted != found and what == 'number of refs':\n",
        test=f"{PLAN}::test_nothing_is_planned_when_something_live_cannot_be_read"
        "[spec 1-a manifest under another name]",
    ),
    "young snapshots that nothing reaches keep nothing": Bug(
        "reclaim.stores.icechunk.observing",
        right="            too_young=frozenset(young),\n",
        wrong="            too_young=frozenset(),\n",
        test=f"{PLAN}::test_what_is_young_stays[spec 1]",
    ),
    "an unfinished commit keeps nothing": Bug(
        "reclaim.stores.icechunk.observing",
        right="files = history.faults if self.format.spec == 1 else modified\n",
        wrong="files = history.faults\n",
        test=f"{PLAN}::test_a_commit_that_was_not_finished[spec 2]",
    ),
    "what came after the listing is not young": Bug(
        "reclaim.stores.icechunk.observing",
        right="if one not in modified or modified[one] >= cutoff}",
        wrong="if one in modified and modified[one] >= cutoff}",
        test=f"{PLAN}::test_a_snapshot_that_is_written_and_left_while_refs_are_read",
    ),
    "snapshots that came while refs were read are not looked for": Bug(
        "reclaim.stores.icechunk.history",
        right="_named(tips, snapshots).union(named)",
        wrong="_named(tips, snapshots)",
        test=f"{PLAN}::test_a_snapshot_that_is_written_and_left_while_refs_are_read",
    ),
    "refs in files are read once": Bug(
        "reclaim.stores.icechunk.history",
        right="        if refs is not None and refs == before:\n            return refs\n",
        wrong="        if before is not None:\n            return before\n",
        test=f"{PLAN}::test_a_branch_that_is_made_while_refs_are_read",
    ),
    "logs of ancestors that were pruned go": Bug(
        "reclaim.stores.icechunk.history",
        right="for info in repo.snapshots if info.pruned}",
        wrong="for info in repo.snapshots if False}",
        test=f"{PLAN}::test_logs_of_pruned_ancestors_stay",
    ),
}
