"""Planted bugs of these stores, and a plugin for pytest that plants the one that is named."""

from __future__ import annotations

import os
import sys

from tests.collect.planted.bugs import Bug
from tests.collect.planted.plant import _Finder

VARIABLE = "RECLAIM_PLANTED_TERMINUS"
HERE = "tests/terminus"

BUGS: dict[str, Bug] = {
    "what came after the listing is not looked for": Bug(
        "reclaim.stores.terminus.observing",
        right="        found = self.survey.complete(listed, reader)\n"
        "        young = _young(found, listed, started",
        wrong="        found = listed\n        young = _young(found, listed, started",
        test=f"{HERE}/test_between.py::test_at_each_step_of_plan_and_apply[squash]",
    ),
    "leases forgotten": Bug(
        "reclaim.stores.terminus.observing",
        right="        leases = self.leases.valid(read_at)\n",
        wrong="        leases = ()\n",
        test=f"{HERE}/test_leases.py::test_a_lease_keeps_what_it_needs",
    ),
    "the lists are read after the layers": Bug(
        "reclaim.stores.beside.leases",
        right="        lists = self._condemned.all()\n        missing",
        wrong="        before = needs(lease.snapshot)\n"
        "        needs = lambda _snapshot: before\n"
        "        lists = self._condemned.all()\n        missing",
        test=f"{HERE}/test_leases.py::test_a_holder_that_sleeps_between_the_lists_and_the_layers",
    ),
    "a late taker of the lock does not look for higher numbers": Bug(
        "reclaim.stores.beside.lock",
        right="        if any(one > address for one in there):\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_lock.py::test_an_old_look_does_not_take_it",
    ),
    "lists are written without the lock": Bug(
        "reclaim.stores.terminus.condemning",
        right="        self.check()\n        return self._run\n",
        wrong="        return self._run\n",
        test=f"{HERE}/test_lock.py"
        "::test_a_run_that_lost_its_lock_does_not_touch_what_others_do[before mark]",
    ),
    "children come back before parents": Bug(
        "reclaim.run.sweep",
        right="    if back:\n",
        wrong="    if False:\n",
        test=f"{HERE}/test_crash.py::test_an_undo_that_dies_at_any_step",
    ),
    "what stands after a failure goes": Bug(
        "reclaim.tasks.deleting",
        right="            if sequential:\n                break\n",
        wrong="",
        test=f"{HERE}/test_path.py::test_nothing_goes_after_one_that_could_not",
    ),
    "no second mark before the bytes go": Bug(
        "reclaim.run.purge",
        right="if isinstance(store, Rescues) else frozenset()",
        wrong="if False else frozenset()",
        test=f"{HERE}/test_rescue.py::test_a_label_that_was_moved_to_it",
    ),
}

if VARIABLE in os.environ:
    _bug = BUGS[os.environ[VARIABLE]]
    assert _bug.module not in sys.modules
    sys.meta_path.insert(0, _Finder(_bug))
