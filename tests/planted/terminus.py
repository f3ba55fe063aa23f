"""Bugs of TerminusDB stores."""

from __future__ import annotations

from tests.planted.bug import Bug

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
        right="            if strict:\n                break\n",
        wrong="",
        test=f"{HERE}/test_path.py::test_nothing_goes_after_one_that_could_not",
    ),
    "no second mark before the bytes go": Bug(
        "reclaim.run.purge",
        right="if isinstance(store, Rescues) else frozenset()",
        wrong="if False else frozenset()",
        test=f"{HERE}/test_rescue.py::test_a_label_that_was_moved_to_it",
    ),
    "what could not be read is not looked at again": Bug(
        "reclaim.stores.terminus.survey",
        right="[*self._come(listed), *listed.broken()]",
        wrong="self._come(listed)",
        test=f"{HERE}/test_written_meanwhile.py::test_it_keeps_what_it_refers_to",
    ),
    "who is only needed counts as read": Bug(
        "reclaim.stores.terminus.layers",
        right="self.graph.numbers.get(layer, len(self)) < len(self)",
        wrong="layer in self.graph.numbers",
        test=f"{HERE}/test_rescue.py::test_of_several_runs_children_go_first_in_each",
    ),
    "a purge goes by a mark of any age": Bug(
        "reclaim.run.purge",
        right="        if parts is away:\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_rescue.py::test_a_purge_past_its_budget[False]",
    ),
    "the quick way misses ids in the later entries of a block": Bug(
        "reclaim.stores.terminus.dictionaries",
        right="            if more:\n",
        wrong="            if False:\n",
        test=f"{HERE}/test_batch.py::test_a_store_is_read_as_its_layers_are[few=0-10000]",
    ),
    "the quick way takes what it cannot read": Bug(
        "reclaim.stores.terminus.reading",
        right="list(compress(listed, ~plain))",
        wrong="()",
        test=f"{HERE}/test_batch.py::test_a_store_is_read_as_its_layers_are[few=0-10000]",
    ),
    "what a layer needs and is not there is forgotten": Bug(
        "reclaim.stores.terminus.layers",
        right="        needs = np.where(among == NONE, needs, count + among)\n",
        wrong="        pass\n",
        test=f"{HERE}/test_refusals.py::test_a_layer_that_is_missing_under_a_live_one[rollup]",
    ),
}
