"""Bugs of TerminusDB stores."""

from __future__ import annotations

from tests.planted.bug import TROUBLED_MACHINE, Bug, Change

HERE = "tests/terminus"
ANY_NAME = Change(
    "reclaim.stores.terminus.format",
    right="                pc.and_(\n                    set_aside,\n",
    wrong="                pc.or_(\n                    set_aside,\n",
)
NO_LAST_LOOK = Change(
    "reclaim.stores.terminus.view",
    right="        self._check_unlabelled(addresses)\n",
    wrong="",
)

BUGS: dict[str, Bug] = {
    "layers are counted as they were read": Bug(
        "reclaim.stores.terminus.observing",
        right="reached, missing, expected=len(existing), read=decoded)",
        wrong="reached, missing, expected=decoded, read=decoded)",
        test=f"{HERE}/test_counted.py::test_a_layer_that_is_listed_and_not_read",
    ),
    "what is kept of layers is not counted": Bug(
        "reclaim.run.plan.checks",
        right="    if kept < expected:\n",
        wrong="    if kept < 0:\n",
        test=f"{HERE}/test_counted.py"
        "::test_an_object_of_a_live_layer_that_would_not_be_kept[rollup]",
    ),
    "what came after the listing is not looked for": Bug(
        "reclaim.stores.terminus.observing",
        right="        layers = self.survey.complete(listed, names, reader)\n"
        "        young = _young(layers, listed, started",
        wrong="        layers = listed\n        young = _young(layers, listed, started",
        test=f"{HERE}/test_between.py::test_at_each_step_of_plan_and_apply[squash]",
    ),
    "layers that an earlier run broke are promised": Bug(
        "reclaim.stores.terminus.held",
        right="for layer in self._left_by_others() if self._is_whole(layer)}",
        wrong="for layer in self._left_by_others()}",
        test=f"{HERE}/test_promises.py"
        "::test_what_an_earlier_run_left_is_promised_if_it_is_whole[False]",
    ),
    "layers that an earlier run left whole are given up": Bug(
        "reclaim.stores.sidecar.held",
        right="{CONDEMNED: self._lists.of(run, CONDEMNED) | others}",
        wrong="{CONDEMNED: self._lists.of(run, CONDEMNED)}",
        test=f"{HERE}/test_promises.py"
        "::test_what_an_earlier_run_left_is_promised_if_it_is_whole[True]",
    ),
    "leases forgotten": Bug(
        "reclaim.stores.terminus.observing",
        right="        leases = self.leases.valid(read_at)\n",
        wrong="        leases = ()\n",
        test=f"{HERE}/test_leases.py::test_a_lease_keeps_what_it_needs",
    ),
    "the lists are read after the layers": Bug(
        "reclaim.stores.sidecar.leases",
        right="        lists = self._condemned.all()\n        missing",
        wrong="        before = needs(lease.snapshot)\n"
        "        needs = lambda _snapshot: before\n"
        "        lists = self._condemned.all()\n        missing",
        test=f"{HERE}/test_leases.py::test_a_holder_that_sleeps_between_the_lists_and_the_layers",
    ),
    "a late taker of the lock does not look for higher numbers": Bug(
        "reclaim.stores.sidecar.lock",
        right="        if any(other > number for other in numbers):\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_lock.py::test_an_old_look_does_not_take_it",
    ),
    "lists are written without the lock": Bug(
        "reclaim.stores.sidecar.held",
        right="        self.lock.check()\n        return self.lock.run_id\n",
        wrong="        return self.lock.run_id\n",
        test=f"{HERE}/test_lock.py"
        "::test_a_run_that_lost_its_lock_does_not_touch_what_others_do[before condemn]",
    ),
    "children come back before parents": Bug(
        "reclaim.run.sweep.sweep",
        right="    if restores:\n",
        wrong="    if False:\n",
        test=f"{HERE}/test_crash.py::test_an_undo_that_dies_at_any_step",
    ),
    "what stands after a failure goes": Bug(
        "reclaim.storage.pace",
        right="                if strict:\n                    break\n",
        wrong="",
        test=f"{HERE}/test_path.py::test_nothing_goes_after_one_that_could_not",
    ),
    "no second mark before the bytes go": Bug(
        "reclaim.run.purge.purge",
        right="            if isinstance(store, ReportsRereferenced)\n",
        wrong="            if False\n",
        test=f"{HERE}/test_rescue.py::test_a_label_that_was_moved_to_it",
    ),
    "what could not be read is not looked at again": Bug(
        "reclaim.stores.terminus.survey",
        right="[*self._added(listed, named), *listed.broken()]",
        wrong="self._added(listed, named)",
        test=f"{HERE}/test_written_meanwhile.py::test_it_keeps_what_it_refers_to",
    ),
    "who is only needed counts as read": Bug(
        "reclaim.stores.terminus.layers",
        right="self.graph.numbers.get(layer, len(self)) < len(self)",
        wrong="layer in self.graph.numbers",
        test=f"{HERE}/test_rescue.py::test_of_several_runs_children_go_first_in_each",
    ),
    "a purge goes by a mark of any age": Bug(
        "reclaim.run.purge.purge",
        drops="_Ending._unneeded: check_budget",
        test=f"{HERE}/test_rescue.py::test_a_purge_past_its_budget[False]",
    ),
    "a long purge goes by its first mark to the end": Bug(
        "reclaim.run.sweep.sweep",
        right="            candidates = renewed(candidates)\n",
        wrong="            pass\n",
        test=f"{HERE}/test_late_labels.py::test_a_label_on_a_new_layer_during_a_long_purge",
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
    "a header is believed before it is compared with its file": Bug(
        "reclaim.stores.terminus.layer",
        right="        check_complete(archive, size)\n        return archive",
        wrong="        return archive",
        test=f"{HERE}/test_damaged.py::test_a_length_beyond_the_file[large-6-1099511627776]",
    ),
    "strays in quarantine are listed with the layers": Bug(
        "reclaim.stores.terminus.view",
        right="            return [name for name in subfolders if _is_run_folder(name)], []\n",
        wrong="            return subfolders, [self.head(file) for file in files]\n",
        test=f"{HERE}/test_strays.py::test_a_listing_of_quarantine_has_no_strays",
        sequence="notes in a quarantine",
        machine=TROUBLED_MACHINE,
        besides=(ANY_NAME,),
    ),
    "what lies in quarantine is a layer, whatever its name": Bug(
        ANY_NAME.module,
        right=ANY_NAME.right,
        wrong=ANY_NAME.wrong,
        test=f"{HERE}/test_strays.py::test_of_quarantine_only_layers_are_known",
    ),
    "a layer may lie in any shard": Bug(
        "reclaim.stores.terminus.format",
        right='pc.and_(like(rf"{layer}(\\.larch)?"), in_shard(below))',
        wrong='like(rf"{layer}(\\.larch)?")',
        test=f"{HERE}/test_strays.py::test_a_file_in_the_wrong_shard[False-{{}}.larch]",
        sequence="files in the wrong shard",
        machine=TROUBLED_MACHINE,
    ),
    "links in a store are followed": Bug(
        "reclaim.stores.terminus.folder",
        right="        if stat.S_ISLNK(status.st_mode):\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_links.py::test_a_shard_that_points_nowhere",
        sequence="a shard has two names",
        machine=TROUBLED_MACHINE,
    ),
    "other file systems in a store are entered": Bug(
        "reclaim.stores.terminus.folder",
        right="        if status.st_dev != self.device:\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_links.py::test_another_file_system[directory]",
        sequence="a shard is on another file system",
        machine=TROUBLED_MACHINE,
    ),
    "of two copies one is dropped, whatever is in them": Bug(
        "reclaim.stores.terminus.folder",
        right="        if not self.same(source, target):\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_torn.py::test_a_copy_is_dropped_only_for_the_same_bytes[False-archive]",
        sequence="other bytes at a home",
        machine=TROUBLED_MACHINE,
        besides=(
            Change(
                "reclaim.engine.tasks.restoring",
                right="        elif copy is not None and not storage.same(home, target.address):\n",
                wrong="        elif False:\n",
            ),
        ),
    ),
    "ids that no layer has are nothing": Bug(
        "reclaim.stores.terminus.observing",
        right="        if not missing or self.allow_missing:\n",
        wrong="        if True:\n",
        test=f"{HERE}/test_missing.py::test_a_graph_that_is_gone[commits-shards]",
        sequence="shards are missing",
        machine=TROUBLED_MACHINE,
    ),
    "a purge does not look for missing layers": Bug(
        "reclaim.stores.terminus.observing",
        drops="TerminusObserver.needed: _missing",
        test=f"{HERE}/test_missing.py::test_a_second_mark_misses_what_is_gone",
        sequence="shards are missing",
        machine=TROUBLED_MACHINE,
    ),
    "a predicate counts for its own layer only": Bug(
        "reclaim.stores.terminus.missing",
        right="            at = self._layers.graph.parent[at]\n",
        wrong="            at = NONE\n",
        test=f"{HERE}/test_missing.py::test_the_predicate_counts_for_what_stands_on_it[True-{{}}]",
    ),
    "what is young and unreadable is not spared": Bug(
        "reclaim.stores.terminus.observing",
        right="        spared |= dict.fromkeys(sorted(young), ",
        wrong="        young = [one for one in young if found.graph.numbers[one] not in "
        "found.graph.faults]\n        spared |= dict.fromkeys(sorted(young), ",
        test=f"{HERE}/test_torn.py::test_one_that_is_being_written_again[-True]",
        sequence="what was torn is written again",
        machine=TROUBLED_MACHINE,
    ),
    "what the system would not let us read is garbage": Bug(
        "reclaim.stores.terminus.reading",
        right="note = UNREAD if isinstance(error, OSError | MemoryError) else None",
        wrong="note = None",
        test=f"{HERE}/test_torn.py::test_one_that_the_system_does_not_let_us_read[old]",
    ),
    "what became unreadable since the plan is taken": Bug(
        "reclaim.run.apply.confirming",
        right="    kept = now.live - decided.live | torn\n",
        wrong="    kept = now.live - decided.live\n",
        test=f"{HERE}/test_torn.py::test_one_that_was_whole_when_it_was_planned",
        sequence="what is torn after the plan",
        machine=TROUBLED_MACHINE,
    ),
    "labels are read once": Bug(
        "reclaim.stores.terminus.label_files",
        right="        if all_labels is not None and all_labels == before:\n",
        wrong="        if all_labels is not None:\n",
        test=f"{HERE}/test_label_reads.py::test_a_layer_that_goes_from_one_label_to_another",
        sequence="labels that move",
        machine=TROUBLED_MACHINE,
    ),
    "a label that names nothing is passed over": Bug(
        "reclaim.stores.terminus.graph",
        right="            raise _unusable(root, None, (why, root))\n",
        wrong="            return reach(graph, {}, spared=spared)\n",
        test=f"{HERE}/test_missing.py::test_a_parent_may_be_allowed_to_be_missing_and_a_label_not",
        sequence="a label names nothing",
        machine=TROUBLED_MACHINE,
    ),
    "a torn layer below a young one stops a run": Bug(
        "reclaim.stores.terminus.graph",
        right="                elif not sparing:\n",
        wrong="                else:\n",
        test=f"{HERE}/test_torn.py::test_a_young_layer_above_a_torn_one",
        sequence="a young layer above a torn one",
        machine=TROUBLED_MACHINE,
    ),
    "leases may be of any length": Bug(
        "reclaim.lease",
        right="    if not timedelta(0) < length <= LONGEST:\n",
        wrong="    if not timedelta(0) < length:\n",
        test=f"{HERE}/test_sidecar.py::test_a_lease_of_such_a_length_is_not_taken[length1]",
        sequence="a lease for years",
        machine=TROUBLED_MACHINE,
    ),
    "a run whose record cannot be read has nothing aside": Bug(
        "reclaim.stores.sidecar.records",
        right="            return unreadable(run_id, when",
        wrong="            return None and unreadable(run_id, when",
        test=f"{HERE}/test_sidecar.py::test_a_record_that_cannot_be_read[empty]",
        sequence="a record that is lost",
        machine=TROUBLED_MACHINE,
    ),
    "a lock that cannot be read is free": Bug(
        "reclaim.stores.sidecar.lock",
        right='return _State(number, "", "", latest, None, f"{file} cannot be read: {error}")',
        wrong='return _State(number, "", "", None)',
        test=f"{HERE}/test_sidecar.py::test_a_lock_that_cannot_be_read[empty]",
        sequence="a lock is empty",
        machine=TROUBLED_MACHINE,
    ),
    "a lock lasts as long as it says": Bug(
        "reclaim.stores.sidecar.lock",
        right="        if expires_at is not None and expires_at > latest + SKEW:\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_sidecar.py::test_a_lock_that_claims_years[2030-01-01T00:00:00+00:00]",
        sequence="a lock claims years",
        machine=TROUBLED_MACHINE,
    ),
    "a lease that cannot be read holds nothing": Bug(
        "reclaim.stores.sidecar.leases",
        right="            except NotFound:\n                # Released",
        wrong="            except (NotFound, ReclaimError):\n                # Released",
        test=f"{HERE}/test_refusals.py::test_a_lease_that_cannot_be_read",
        sequence="a lease is empty",
        machine=TROUBLED_MACHINE,
    ),
    "a renewal is not timed": Bug(
        "reclaim.stores.sidecar.leases",
        right="        if not current.valid_at(self._clock.now() + SKEW):\n            # After",
        wrong="        if False:\n            # After",
        test=f"{HERE}/test_sidecar.py::test_a_holder_that_slept_while_it_renewed",
        sequence="a holder that slept",
        machine=TROUBLED_MACHINE,
    ),
    "only runs that are known have anything aside": Bug(
        "reclaim.stores.terminus.store",
        right="        runs = self._view.quarantined_runs()\n",
        wrong="        runs = [run.id for run in self.runs() if run.quarantine]\n",
        test=f"{HERE}/test_sidecar.py"
        "::test_what_an_unreadable_run_has_aside_still_needs_its_parents",
    ),
    "a plan may name anything in a store": Bug(
        "reclaim.stores.terminus.view",
        right="        if below == address or not (",
        wrong="        if below == address and not (",
        test=f"{HERE}/test_strays.py::test_nothing_else_is_taken_whatever_a_plan_says[main.label]",
    ),
    "what layers in quarantine need is taken": Bug(
        "reclaim.run.roots.promises",
        right="    if isinstance(store, NeedsOtherSnapshots):\n        seen",
        wrong="    if False:\n        seen",
        test=f"{HERE}/test_promises.py::test_a_later_run_leaves_it[parent-deletes]",
    ),
    "what an unfinished run was about to take needs nothing": Bug(
        "reclaim.stores.terminus.store",
        right="        taking = {layer for address in held if (layer := layer_of(address))}\n",
        wrong="        taking = set()\n",
        test=f"{HERE}/test_promises.py::test_a_run_that_died[before promote]",
    ),
    "a rollup file in quarantine needs nothing": Bug(
        "reclaim.stores.terminus.promised",
        right="promised.update(rollup for file in files if (rollup := survey.rollup_in(file)))",
        wrong="pass",
        test=f"{HERE}/test_promises.py::test_a_rollup_file_alone",
    ),
    "a purge takes what layers in another quarantine need": Bug(
        "reclaim.stores.terminus.observing",
        right="        reached = marked.ids | needed_by(layers, all_layers)\n",
        wrong="        reached = marked.ids\n",
        test=f"{HERE}/test_promises.py::test_a_purge_brings_it_back",
    ),
    "a quarantine without a record promises nothing": Bug(
        "reclaim.stores.terminus.store",
        right="{*self._view.quarantined_runs(), *(run.id for run in runs)} - ended",
        wrong="{run.id for run in runs} - ended",
        test=f"{HERE}/test_promises.py::test_a_quarantine_without_a_record",
    ),
    "a label is read although another process is writing it": Bug(
        "reclaim.stores.terminus.label_files",
        drops="_read_locked: _lock",
        test=f"{HERE}/test_label_reads.py::test_a_label_that_is_locked_for_a_moment",
    ),
    "a run believes that all clocks are the storage's": Bug(
        "reclaim.stores.sidecar.leases",
        right="if lease.valid_at(now - SKEW)",
        wrong="if lease.valid_at(now)",
        test=f"{HERE}/test_lease_skew.py"
        "::test_who_can_renew_has_lost_nothing[run ahead-holder behind--3]",
    ),
    "a holder renews by a clock that may be behind": Bug(
        "reclaim.stores.sidecar.leases",
        right="        if not current.valid_at(self._clock.now() + SKEW):\n            raise",
        wrong="        if not current.valid_at(self._clock.now()):\n            raise",
        test=f"{HERE}/test_lease_skew.py::test_the_last_moment_to_renew",
    ),
    "a holder relies on its lease to the end": Bug(
        "reclaim.stores.sidecar.leases",
        right="        self._sure_until = lease.refreshed_at + lease.length - EARLY\n",
        wrong="        self._sure_until = lease.refreshed_at + lease.length\n",
        test=f"{HERE}/test_lease_skew.py"
        "::test_who_believes_in_its_lease_has_lost_nothing[run ahead]",
    ),
    "a holder's clock may say anything": Bug(
        "reclaim.stores.sidecar.leases",
        right="        if not before - SKEW <= written_at <= self._clock.now() + SKEW:\n",
        wrong="        if False:\n",
        test=f"{HERE}/test_lease_skew.py::test_a_holder_whose_clock_is_wrong[-6]",
    ),
    "a lock is taken over by a clock that is ahead": Bug(
        "reclaim.stores.sidecar.lock",
        right="            free_at = state.expires_at + REQUEST + SKEW\n",
        wrong="            free_at = state.expires_at + REQUEST\n",
        test=f"{HERE}/test_lock.py::test_it_is_not_taken_over_by_a_clock_that_is_ahead",
    ),
    "a layer in its place counts as the same": Bug(
        "reclaim.stores.terminus.observing",
        right="            if layer in reached\n",
        wrong="            if layer in reached - in_place\n",
        test=f"{HERE}/test_rescue.py::test_other_bytes_in_its_place[last bit-child]",
    ),
    "labels are not read again before the bytes go": Bug(
        NO_LAST_LOOK.module,
        right=NO_LAST_LOOK.right,
        wrong=NO_LAST_LOOK.wrong,
        test=f"{HERE}/test_late_labels.py::test_a_label_at_each_step_of_a_purge",
    ),
    "other bytes in the place of a labelled layer are the layer": Bug(
        "reclaim.stores.terminus.view",
        right="bool(self.there([home])) and self.same(home, address)",
        wrong="bool(self.there([home]))",
        test=f"{HERE}/test_late_labels.py::test_a_label_on_other_bytes_while_it_is_purged",
    ),
    "a young layer without its parent stops a run": Bug(
        "reclaim.stores.terminus.graph",
        right="                if fault is None and sparing:\n",
        wrong="                if False:\n",
        test=f"{HERE}/test_torn.py::test_a_young_layer_without_what_it_needs[parent]",
    ),
    "a link in quarantine stops an undo that is over": Bug(
        "reclaim.stores.terminus.view",
        right="            for address, status in self._entries(run):\n",
        wrong="            for address, status in self._entries(run):\n"
        "                self.folder.check(address, status)\n",
        test=f"{HERE}/test_links.py::test_a_link_that_no_run_put_in_quarantine[nowhere-run]",
    ),
    "an undo is over before its folder is listed": Bug(
        "reclaim.stores.terminus.held",
        right="        strays = view.strays(",
        wrong="        self._end(run_id)\n        strays = view.strays(",
        test=f"{HERE}/test_links.py::test_another_file_system_in_quarantine",
    ),
    "a layer in quarantine that is away is not named": Bug(
        "reclaim.stores.terminus.observing",
        right="                *_lost_warnings(promised, all_layers),\n",
        wrong="",
        test=f"{HERE}/test_promises.py::test_a_plan_names_a_layer_that_is_away",
    ),
}
