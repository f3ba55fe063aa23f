"""Bugs of runs that take what live commits refer to: claims, their promotion, and their end."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

CLAIMS = "reclaim.catalog.collection.condemn.claimed_addresses"
APPLYING = "reclaim.run.lifecycle.applying"
PROMOTION = "reclaim.run.lifecycle.promotion"
ROWS = "tests/catalog/test_claims.py"
RACES = "tests/catalog/test_claim_races.py"
TEST = "tests/lifecycle/test_applying.py"
AFTERWARDS = "tests/lifecycle/test_afterwards.py"
STEPS = "tests/schedules/test_lifecycle_steps.py"
EDITS = "reclaim.catalog.staging.entry_edits"
HOLDS = f"{TEST}::test_nothing_goes_that_something_came_to_hold"
PROMOTE = """            self._writer.promoting()
            if self._claims.promote_claims(seen, rules):
"""
TO_RESUME = """                context.own.below("objects"),
                context.work,
            ),
        ).parts
"""

BUGS: dict[str, Bug] = {
    "claims are promoted without comparing what is named": Bug(
        CLAIMS,
        right="        if _is_more_named(connection, workspace, refs, leases):\n",
        wrong="        if False:\n",
        test=f"{HOLDS}[a tag-before the promotion]",
    ),
    "tags are not compared before claims are promoted": Bug(
        CLAIMS,
        right="    named |= {(RefKind.TAG, name, commit) for name, commit in "
        "connection.execute(tagged)}\n",
        wrong="",
        test=f"{HOLDS}[a tag-before the promotion]",
    ),
    "leases are not compared before claims are promoted": Bug(
        CLAIMS,
        right="    return not leased <= {str(lease.snapshot) for lease in leases}\n",
        wrong="    return not leased\n",
        test=f"{HOLDS}[a lease-before the promotion]",
    ),
    "heads are compared by name only": Bug(
        CLAIMS,
        right="    if not named <= seen:\n",
        wrong="    if not {row[:2] for row in named} <= {row[:2] for row in seen}:\n",
        test=f"{HOLDS}[a merge-before the promotion]",
    ),
    "claims are made after the read that confirms": Bug(
        PROMOTION,
        right="self._claims.claim(self._rules_of(candidates))",
        wrong="self._claims.claim(())",
        besides=(
            Change(
                PROMOTION,
                PROMOTE,
                "            self._claims.claim(self._rules_of(context.basis.candidates))\n"
                + PROMOTE,
            ),
        ),
        test=f"{HOLDS}[a copy-after the read]",
    ),
    "claims are promoted by a later read than that which they were judged by": Bug(
        PROMOTION,
        right="            if self._claims.promote_claims(seen, rules):\n",
        wrong="            if self._claims.promote_claims(context.observe_store(), rules):\n",
        test=f"{STEPS}::test_a_reference_at_a_step_of_the_window[tag]",
    ),
    "claims are not closed": Bug(
        PROMOTION,
        drops="Promotion.claim: close_claims",
        test=f"{STEPS}::test_the_window_is_hit_at_every_step",
    ),
    "a copy looks for claims before its transaction": Bug(
        EDITS,
        drops="_LockedPaths.share: check_unclaimed",
        besides=(
            Change(
                EDITS,
                "    original = source_entry\n",
                """    original = source_entry
    with workspace.database.read() as connection:
        claims.check_unclaimed(connection, original.address)
""",
            ),
        ),
        test=f"{STEPS}::test_the_window_goes_by_while_a_reference_is_made[copy of the old]",
    ),
    "a claimed address can be referred to": Bug(
        "reclaim.catalog.staging.claims",
        right="    if row is None:\n        return\n    if row.state",
        wrong="    if row is None or row:\n        return\n    if row.state",
        test=f"{ROWS}::test_what_is_claimed_cannot_be_referred_to[embedded-copy]",
    ),
    "what is staged leaves its claim": Bug(
        CLAIMS,
        right="            needed += connection.execute(claimed).scalars()\n",
        wrong="            connection.execute(claimed)\n",
        test=f"{ROWS}::test_a_claim_is_dropped_for_what_is_staged_or_waited_for[embedded]",
    ),
    "what is sealed leaves its claim": Bug(
        CLAIMS,
        right="            staging_tokens.c.state.in_((TokenState.OPEN, TokenState.SEALED)),\n",
        wrong="            staging_tokens.c.state == TokenState.OPEN,\n",
        test=f"{ROWS}::test_a_sealed_entry_holds_its_address[embedded]",
    ),
    "what was judged again keeps its claim": Bug(
        PROMOTION,
        right="            self._claims.drop_claims(leaving)\n",
        wrong="            list(leaving)\n",
        test=f"{HOLDS}[an archive-after the plan]",
    ),
    "the plan is swept, and not what was claimed": Bug(
        PROMOTION,
        right="        going = pipelines.intersect(self._engine, candidates, parts,"
        ' context.own.below("going"))\n',
        wrong="        going = candidates\n",
        besides=(
            Change(
                PROMOTION, "        if count_rows(going) != written.count:\n", "        if False:\n"
            ),
        ),
        test=f"{HOLDS}[a tag-after the plan]",
    ),
    "claims of a run without its lock are promoted": Bug(
        CLAIMS,
        right="""    def work(connection: Connection) -> bool:
        lock.assure(connection)
""",
        wrong="""    def work(connection: Connection) -> bool:
""",
        besides=(
            Change(
                CLAIMS,
                "        _check_provisional(connection, lock.run_id)\n        _set",
                "        _set",
            ),
        ),
        test=f"{ROWS}::test_a_run_that_lost_its_lock_claims_and_promotes_nothing[embedded]",
    ),
    "claims of a run that died stay": Bug(
        "reclaim.catalog.collection.condemn.leftovers",
        right="        return marks, claimed_addresses.release_all(connection, uid, "
        "besides=lock.run_id)\n",
        wrong="        return marks, False\n",
        test=f"{ROWS}::test_claims_of_a_run_that_died_are_taken_back[embedded]",
    ),
    "promoted claims are taken back with the others": Bug(
        CLAIMS,
        right="        .where(own_claims, claims.c.state == ClaimState.PROVISIONAL)\n",
        wrong="        .where(own_claims)\n",
        test=f"{ROWS}::test_claims_are_final_once[embedded]",
    ),
    "claims that are final are dropped": Bug(
        CLAIMS,
        right="        _check_provisional(connection, lock.run_id)\n        return _remove",
        wrong="        return _remove",
        test=f"{ROWS}::test_claims_are_final_once[embedded]",
    ),
    "another run's claim is taken over": Bug(
        CLAIMS,
        right="INSERT OR IGNORE INTO",
        wrong="INSERT OR REPLACE INTO",
        test=f"{ROWS}::test_no_two_runs_claim_the_same[embedded]",
    ),
    "what the ledger has condemned is claimed": Bug(
        CLAIMS,
        right="[row for row in batch if row[0] not in condemned]",
        wrong="batch",
        test=f"{ROWS}::test_what_the_ledger_condemned_is_not_claimed[embedded]",
    ),
    "rules that change while it is confirmed are not noticed": Bug(
        CLAIMS,
        drops="promote.work: _check_rules",
        test=f"{TEST}::test_rules_that_were_changed_since_refuse_the_plan[True]",
    ),
    "a plan by other rules is applied": Bug(
        PROMOTION,
        right="            if lifecycle_document(stored.policy) == self._section.policy:\n",
        wrong="            if stored:\n",
        test=f"{TEST}::test_rules_that_were_changed_since_refuse_the_plan[False]",
    ),
    "a lifecycle plan that nobody vouches for is applied": Bug(
        APPLYING,
        right="    if not trusted:\n",
        wrong="    if False:\n",
        test=f"{TEST}::test_a_plan_that_nobody_vouches_for_is_refused",
    ),
    "an undo leaves what it brought back gone": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="released_claims = claimed_addresses.release_undone(connection, run_id)\n",
        wrong="released_claims = False\n",
        test=f"{TEST}::test_an_undone_run_took_nothing[embedded]",
    ),
    "an apply that was cut off takes what it took again": Bug(
        APPLYING,
        right=f"                self._journal.parts(),\n{TO_RESUME}",
        wrong=f"                (),\n{TO_RESUME}",
        test=f"{TEST}::test_applied_again_it_takes_and_counts_nothing_twice",
    ),
    "a run that was cut off is not finished by the next": Bug(
        "reclaim.run.lifecycle.unfinished",
        right="for run in list(find_unfinished(store)):",
        wrong="for run in ():",
        test=f"{AFTERWARDS}::test_the_next_run_finishes_one_that_was_cut_off[deleted]",
    ),
    "what a dead commit has is forgotten": Bug(
        "reclaim.run.lifecycle.forgetting",
        right=" or planned.dead or seen.marked:\n",
        wrong=":\n",
        test=f"{AFTERWARDS}::test_what_no_commit_has_any_more_is_forgotten_by_a_full_run",
    ),
    "an undo misses what rules took": Bug(
        "reclaim.run.undo.completeness",
        right='            _expired(store, place.below("expired"), opener),\n',
        wrong="",
        test=f"{TEST}::test_a_later_collection_and_its_undo_do_not_miss_what_expired",
    ),
    "a doctor misses what rules took": Bug(
        "reclaim.stores.catalog.examination",
        right="        missing = [address for address in absent if address not in expired]\n",
        wrong="        missing = absent\n",
        test=f"{TEST}::test_a_doctor_does_not_call_it_corrupt",
    ),
}
