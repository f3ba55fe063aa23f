"""Bugs of operations that meet, each found by the scheduler in a race that has a name."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

RACE = "tests/schedules/test_races.py::test_a_race"
PAIR = "tests/schedules/test_pairs.py::test_a_pair"

EDITS = "reclaim.catalog.staging.entry_edits"
CLEANER = "reclaim.catalog.staging.cleaner"

BUGS: dict[str, Bug] = {
    "copy reads its source outside the transaction": Bug(
        EDITS,
        right="""        visible = locked_paths.visible(source)
        if visible is None and source_ref == branch:
""",
        wrong="""        visible = original
        if visible is None and source_ref == branch:
""",
        test=f"{PAIR}[put + copy]",
        # A condemned address would be refused, in the same transaction.
        besides=(Change(EDITS, "        ledger.hold(self._connection, entry.address)\n", ""),),
    ),
    "delete before condemn": Bug(
        EDITS,
        right="""            locked_paths.remove(path)

    _edit(workspace, branch, paths, work)
""",
        wrong="""            locked_paths.remove(path)

    from reclaim.catalog.staging.staged_rows import lock_rows
    with workspace.database.read() as connection:
        view = tokens.read_view(connection, workspace.repo_uid, branch)
        staged = lock_rows(connection, view.tokens[0], paths)
    for change in staged.values():
        if change.entry is not None:
            workspace.storage.delete(change.entry.address)
    _edit(workspace, branch, paths, work)
""",
        test=f"{RACE}[delete and move]",
    ),
    "the cleaner settles what another row should release": Bug(
        CLEANER,
        right="        shadowed = _shadowed(connection, token.id, token.commit_id, paths)\n",
        wrong="        shadowed = set()\n",
        test=f"{RACE}[write after commit]",
    ),
    "the cleaner judges the ledger before the staged rows are gone": Bug(
        CLEANER,
        right="    connection.execute(delete(staged_entries).where(of_token, cleaned))\n",
        wrong="",
        test=f"{RACE}[write after commit]",
        besides=(
            Change(
                CLEANER,
                "    ledger.release(connection, {address for address, _ in lost}, now, rule)\n",
                "    ledger.release(connection, {address for address, _ in lost}, now, rule)\n"
                "    connection.execute(delete(staged_entries).where(of_token, cleaned))\n",
            ),
        ),
    ),
    "a shadow is judged across commits": Bug(
        CLEANER,
        right="            staging_tokens.c.commit_id == commit_id,\n",
        wrong="",
        test=f"{RACE}[write after commit]",
    ),
    "a ledger row for a staged outside address": Bug(
        "reclaim.catalog.staging.imports",
        right="        token = tokens.lock_open_token(connection, workspace.repo_uid, branch)\n",
        wrong="""        from reclaim.catalog.staging import ledger
        entries = [Entry.from_values(*values) for values in changes]
        ledger.enter(connection, workspace.repo_uid, entries, workspace.now())
        token = tokens.lock_open_token(connection, workspace.repo_uid, branch)
""",
        test=f"{RACE}[an outside object staged while it is moved]",
    ),
    "a commit lands whatever became of its tokens": Bug(
        "reclaim.catalog.refs.committing",
        drops="land.work: lock_view",
        test=f"{RACE}[reset during commit]",
    ),
    "a stalled writer stages what was collected": Bug(
        "reclaim.catalog.staging.uploads",
        drops="stage_fresh.work: check_open",
        test=f"{RACE}[a stalled writer after its partition was closed]",
    ),
    "the reaper does not ask whether an address is condemned": Bug(
        "reclaim.catalog.reaping.backlog",
        right="""            ledger.c.state == LedgerState.CONDEMNED,
            ledger.c.run_id.is_(None),
            ledger.c.condemned_at <=""",
        wrong="""            ledger.c.run_id.is_(None),
            ledger.c.created_at <=""",
        test=f"{RACE}[copied while the reaper is at work]",
    ),
    "the reaper takes what a run has condemned": Bug(
        "reclaim.catalog.reaping.backlog",
        right="            ledger.c.run_id.is_(None),\n",
        wrong="",
        test=f"{RACE}[deleted while the reaper is at work]",
        besides=(
            Change(
                "reclaim.catalog.reaping.backlog",
                "            ledger.c.created_at > promised,\n",
                "",
            ),
        ),
    ),
    "the reaper of a copy of the database": Bug(
        "reclaim.catalog.reaping.reaper",
        drops="Reaper._check: check_epoch",
        test=f"{RACE}[a copy of the database reaps]",
        besides=(Change("reclaim.catalog.reaping.reaper", "        self.home.require()\n", ""),),
    ),
    "what goes while it is copied is called damaged": Bug(
        EDITS,
        right="    with gone_if_collected(workspace, shown.commit):\n",
        wrong="    if shown.commit:\n",
        test=f"{RACE}[copy out of a dying range]",
    ),
    "what goes while it is reverted is called damaged": Bug(
        "reclaim.catalog.refs.merging",
        right="        self.source = tree_of(workspace, source)\n",
        wrong="        self.source = workspace.containers.tree(source.metarange)\n",
        test=f"{RACE}[revert into a dying range]",
    ),
    "confirm skipped, between the steps of a lease": Bug(
        "reclaim.run.apply.confirming",
        right="fresh = live_containers(seen, kept)",
        wrong="""import dataclasses
    seen = dataclasses.replace(seen, held=(), held_count=0)
    fresh = live_containers(seen, ())""",
        test=f"{RACE}[a lease while its commit dies]",
    ),
    "an open partition protects nothing from a run on uncommitted data": Bug(
        "reclaim.run.plan.planning",
        right="            closed=seen.closed,\n            open=seen.open,\n",
        wrong="            closed=seen.closed | seen.open,\n            open=frozenset(),\n",
        test="tests/schedules/test_uncommitted_runs.py::test_a_writer_waits_while_a_run_goes_by"
        "[an upload begun before the run and staged during it]",
        besides=(
            Change(
                "reclaim.run.apply.confirming",
                "            seen.held,\n            seen.closed,\n",
                "            seen.held,\n            seen.closed | seen.open,\n",
            ),
        ),
    ),
}
