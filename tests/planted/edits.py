"""Bugs of edits of the history: what is decided again, and what may still be taken back."""

from __future__ import annotations

from tests.planted.bug import Bug

AGAIN = "tests/collect/test_decided_again.py"

BUGS: dict[str, Bug] = {
    "an edit made as it was planned": Bug(
        "reclaim.run.reviewed_edit",
        right="        going = self.expired - decisions.kept\n",
        wrong="        going = set(self.expired)\n",
        test=f"{AGAIN}::test_an_expiration_below_it_was_undone[deletes]",
    ),
    "an edit by the rules of now alone": Bug(
        "reclaim.run.reviewed_edit",
        right="        going = self.expired - decisions.kept\n",
        wrong="        going = history.numbers.keys() - decisions.kept\n",
        test=f"{AGAIN}::test_new_commits_do_not_disturb[embedded-before the apply]",
    ),
    "what the plan left in reach gets out of reach": Bug(
        "reclaim.run.reviewed_edit",
        right="            lost = going & (released - self.released)\n",
        wrong="            lost = set()\n",
        test=f"{AGAIN}::test_what_the_plan_left_in_reach_stays_in_reach",
    ),
    "a branch that moved is deleted": Bug(
        "reclaim.run.reviewed_edit",
        right="                deletable=self.delete_refs,\n",
        wrong="",
        test=f"{AGAIN}::test_a_branch_that_moved_is_not_deleted",
    ),
    "a ref made after the decision is not noticed": Bug(
        "reclaim.catalog.collection.history_compare",
        right="commit_id == tips.get((RefKind.TAG, name))",
        wrong="commit_id",
        test=f"{AGAIN}::test_a_tag_that_was_made_since_holds_its_history[before edit_history]",
    ),
    "an apply that goes on decides on its own edit": Bug(
        "reclaim.run.apply",
        right="if self._begun and not self._promoted and held.roll_back() is None:",
        wrong="if self._begun and self._promoted:",
        test=f"{AGAIN}::test_so_does_one_that_was_made_after_an_apply_was_killed",
    ),
    "a plan on top of an edit that may be taken back": Bug(
        "reclaim.run.plan",
        right="        if seen.editor is not None and not",
        wrong="        if seen.editor == '' and not",
        test=f"{AGAIN}::test_nobody_decides_on_an_edit_that_may_be_taken_back",
    ),
}
