"""Bugs of collection, from a plan to its purge."""

from __future__ import annotations

from tests.planted.bug import Bug

BETWEEN = "tests/collect/test_between.py"
IN_FLIGHT = "tests/collect/test_in_flight.py"
RACES = "tests/collect/test_races.py"
REFUSED_PLANS = "tests/collect/test_refused_plans.py"


BUGS: dict[str, Bug] = {
    "confirm skipped": Bug(
        "reclaim.run.apply",
        right="fresh = sorted({seen.tops[one] for one in now.live - decided.live"
        " if one in seen.tops})",
        wrong="""import dataclasses
        seen = dataclasses.replace(seen, held=(), held_count=0)
        fresh = []""",
        test=f"{BETWEEN}::test_what_is_referenced_again_stays[embedded-a tag]",
    ),
    "confirm by time instead of by id": Bug(
        "reclaim.run.apply",
        right="for one in now.live - decided.live if",
        wrong="""for one in [
            snapshot.id for snapshot in seen.snapshots
            if snapshot.id in now.live and snapshot.written_at >= self._planned.started_at
        ] if""",
        test=f"{BETWEEN}::test_what_is_referenced_again_stays[embedded-a branch]",
    ),
    "database read before the listing": Bug(
        "reclaim.run.plan",
        right="""        with stage("list") as listing:
""",
        wrong="""        seen = self._store.observe(
            self._storage, work.at("roots/"), reader=self._engine, margin=timedelta(0)
        )
        self._store.observe = lambda *_, **__: seen
        with stage("list") as listing:
""",
        test=f"{IN_FLIGHT}::test_a_writer_at_work_while_a_plan_is_made[embedded]",
    ),
    "leases forgotten": Bug(
        "reclaim.catalog.observing",
        right="leases=valid,",
        wrong="leases=(),",
        test=f"{BETWEEN}::test_a_lease_keeps_what_it_reaches[embedded]",
    ),
    "sealed tokens forgotten": Bug(
        "reclaim.catalog.observing",
        right="staging_tokens.c.state.in_((TokenState.OPEN, TokenState.SEALED)),",
        wrong="staging_tokens.c.state.in_((TokenState.OPEN,)),",
        test=f"{IN_FLIGHT}::test_a_sealed_change_is_held[embedded]",
    ),
    "tags forgotten": Bug(
        "reclaim.catalog.refs",
        right="*(_tag(row) for row in connection.execute(marks)),",
        wrong="",
        test=f"{BETWEEN}::test_a_tag_keeps_what_it_reaches[embedded]",
    ),
    "open partitions forgotten": Bug(
        "reclaim.catalog.observing",
        right='found["open"].append(row.id)',
        wrong='found["closed"].append(row.id)',
        test=f"{IN_FLIGHT}::test_bytes_in_flight_are_in_an_open_partition[embedded-put]",
    ),
    "a range reused that is not the parents'": Bug(
        "reclaim.catalog.rewrite",
        right="return {info.digest: info for tree in trees for info in tree.ranges}",
        wrong="""SEEN.update({info.digest: info for tree in trees for info in tree.ranges})
    return SEEN


SEEN: dict[str, RangeInfo] = {}""",
        test=f"{IN_FLIGHT}::test_a_commit_in_flight_does_not_lean_on_a_dying_range[embedded]",
    ),
    "the head checked but not the sealed tokens": Bug(
        "reclaim.catalog.tokens",
        right="if _view(connection, view.repo_uid, view.name, lock=lock) != view:",
        wrong="if _view(connection, view.repo_uid, view.name, lock=lock).head != view.head:",
        test=f"{IN_FLIGHT}::test_a_reset_during_a_commit_wins[embedded]",
    ),
    "only the plan's dead commits condemned": Bug(
        "reclaim.run.apply",
        right="if one not in now.live and one not in seen.marked",
        wrong="if one not in now.live and one not in seen.marked and one in decided.dead",
        test=f"{BETWEEN}::test_a_commit_on_a_dead_one_is_condemned_with_it",
    ),
    "overdue partitions counted as closed": Bug(
        "reclaim.run.apply",
        right="                settled=True,\n",
        wrong="",
        test=f"{IN_FLIGHT}::test_a_partition_that_becomes_overdue_too_late_is_not_counted_as_closed",
    ),
    "one look instead of one after the marks": Bug(
        "reclaim.run.apply",
        right="            self._store.mark(unmarked)\n",
        wrong="            self._store.mark(unmarked)\n            return seen, now\n",
        test=f"{RACES}::test_a_race_inside_apply[a branch-before the marks]",
    ),
    "deletes after the deadline": Bug(
        "reclaim.tasks.deleting",
        right="    for start in range(0, rows.num_rows, PAGE):\n",
        wrong="""    in_time = lambda: True
    for start in range(0, rows.num_rows, PAGE):
""",
        test="tests/collect/test_locks.py"
        "::test_a_lock_that_is_lost_in_the_middle_of_the_sweep[embedded-range]",
    ),
    "addresses not checked": Bug(
        "reclaim.tasks.deleting",
        right='    check_inside(format, rows.column("address").to_pylist())\n',
        wrong="",
        test=f"{REFUSED_PLANS}::test_an_address_outside_the_store[{{own}}../x]",
    ),
    "the hash of a plan's file not compared": Bug(
        "reclaim.tasks.parts",
        right="if hashlib.sha256(data).hexdigest() != part.sha256:",
        wrong="if False:",
        test=f"{REFUSED_PLANS}::test_a_file_of_a_plan_edited_by_hand",
    ),
    "an unreadable live container skipped": Bug(
        "reclaim.tasks.reading",
        right="""        except UNREADABLE:
            if container["cause"] == LIVE:
                raise
            yield _itself(container, 0)
""",
        wrong="""        except UNREADABLE:
            yield _itself(container, container["entries"])
""",
        test="tests/collect/test_refusals.py"
        "::test_a_damaged_container_of_a_live_commit[truncated-range]",
    ),
    "a plan applied again from the sweep, without what was journalled": Bug(
        "reclaim.run.apply",
        right="self._journal.taken(self._store.format.top)",
        wrong="frozenset()",
        test="tests/collect/test_crash.py"
        "::test_an_apply_that_dies_at_any_step[embedded-sets aside]",
    ),
}
