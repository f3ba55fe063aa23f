"""Bugs of kinds of runs: options that are ignored, and stores that are left out."""

from __future__ import annotations

from tests.planted.bug import Bug

KINDS = "tests/cli/test_kinds.py"

BUGS: dict[str, Bug] = {
    "a rule beside another kind of run is ignored": Bug(
        "reclaim.cli.options.kinds",
        right="                if option not in TAKEN[chosen]:\n",
        wrong="                if False:\n",
        test=f"{KINDS}::test_options_that_do_not_go_together[--uncommitted --keep-last 3-plan]",
    ),
    "a kind without rules goes by the stored policy": Bug(
        "reclaim.api.options",
        right="policy = self.policy if self.request.kind in WITH_RULES else Policy()\n",
        wrong="policy = self.policy\n",
        test=f"{KINDS}::test_a_stored_policy_is_for_kinds_with_rules[--lifecycle]",
    ),
    "an error of one store stops the collection of the others": Bug(
        "reclaim.api.gc",
        right="        except Exception as error:\n            outcome = StoreOutcome(",
        wrong="        except OSError as error:\n            outcome = StoreOutcome(",
        test="tests/cli/test_collect.py::test_gc_of_all_goes_on_after_a_failure",
    ),
    "a run without a find leaves no checkpoint": Bug(
        "reclaim.run.gc",
        right="        if not made.leaves_checkpoint and is_empty(",
        wrong="        if is_empty(",
        test="tests/cli/test_uncommitted.py::test_a_run_that_finds_nothing_leaves_a_checkpoint",
    ),
}
