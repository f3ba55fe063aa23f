"""Bugs in what is believed of the record of a run, and in what is done without it."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

LISTS = "tests/collect/apply/test_lists.py"
MARKERS = "tests/collect/quarantine/test_markers.py"
DAMAGED_LISTS = "tests/collect/apply/test_damaged_lists.py"
DAMAGED_MARKERS = "tests/collect/quarantine/test_damaged_markers.py"
ORPHANS = "tests/collect/quarantine/test_orphans.py"

BUGS: dict[str, Bug] = {
    "lists are believed that no record knows": Bug(
        "reclaim.run.record.known_lists",
        right="    if known is None:\n        return _read_all(storage, applies)",
        wrong="    if True:\n        return _read_all(storage, applies)",
        test=f"{LISTS}::test_a_forged_journal_does_not_count[embedded]",
    ),
    "a list is known by its name": Bug(
        "reclaim.run.record.known_lists",
        right="        if digest not in hashes:\n",
        wrong="        if not hashes:\n",
        test=f"{LISTS}::test_a_forged_list_of_the_same_length",
    ),
    "a list is recorded that is not written yet, and the one before it forgotten": Bug(
        "reclaim.run.record.journal",
        right="self._known[name] = [*before, hash_of(body)]",
        wrong="self._known[name] = [hash_of(body)]",
        test=f"{LISTS}::test_an_apply_that_dies_at_its_journal_knows_the_waves_before",
    ),
    "a note alone makes an object the run's": Bug(
        "reclaim.engine.tasks.recall",
        right="return _with_outcomes(rows, listed=False)",
        wrong="return _with_outcomes(rows, listed=True)",
        test=f"{LISTS}::test_a_forged_note_adds_no_object",
    ),
    "a damaged file of a record stops an undo": Bug(
        "reclaim.run.sweep.removal",
        right="""        except (Refused, Corrupt) as error:
            log.warning(""",
        wrong="""        except NotFound as error:
            log.warning(""",
        test=f"{DAMAGED_LISTS}::test_a_damaged_file_of_a_record_and_an_undo[journal-missing]",
    ),
    "lists that are shorter than the record says": Bug(
        "reclaim.run.sweep.removal",
        right="return not self.journal.lost and self.journal.intended_rows() >= self.run.intended",
        wrong="return self.run.intended >= 0",
        test=f"{DAMAGED_LISTS}::test_a_list_of_an_earlier_apply_that_is_gone",
    ),
    "a list that was given up had nothing of its own": Bug(
        "reclaim.run.sweep.removal",
        right="return self.is_whole and not self.journal.given_up and",
        wrong="return self.is_whole and",
        test=f"{DAMAGED_LISTS}::test_what_only_a_list_had_that_was_given_up",
    ),
    "a list is given up before another has what it had": Bug(
        "reclaim.run.apply.first_record",
        right="        intended=earlier.intended,\n",
        wrong="",
        test=f"{DAMAGED_LISTS}::test_an_apply_again_that_dies_before_it_has_new_lists",
    ),
    "a repeated apply keeps a damaged list": Bug(
        "reclaim.run.apply.apply_plan",
        drops="CollectionApplying._check: _give_up_damaged",
        test=f"{DAMAGED_LISTS}::test_a_damaged_file_of_an_unfinished_run[journal]",
    ),
    "lists that are gone were never there": Bug(
        "reclaim.run.record.journal",
        right="self.begun = known is None or bool(known)",
        wrong="self.begun = bool(self._lists.rows)",
        test=f"{DAMAGED_LISTS}::test_lists_that_are_gone_and_an_apply_again",
    ),
    "a run that cannot be purged holds up all others": Bug(
        "reclaim.run.purge.purge",
        right="                        if len(ending) == 1:\n",
        wrong="                        if True:\n",
        besides=(
            Change(
                "reclaim.run.purge.purge",
                right="    except (Refused, Corrupt) as error:\n",
                wrong="    except Partial as error:\n",
            ),
        ),
        test=f"{DAMAGED_LISTS}::test_a_run_that_cannot_be_purged_holds_up_no_other",
    ),
    "an error of one run that nobody foresaw stops a purge": Bug(
        "reclaim.run.purge.purge",
        right="                    except Exception as error:\n                        # The other",
        wrong="                    except Refused as error:\n                        # The other",
        test=f"{DAMAGED_LISTS}::test_whatever_stops_one_run_the_others_are_purged",
    ),
    "a purge that lost its lock goes on": Bug(
        "reclaim.run.purge.purge",
        right="                    except LockLost:\n",
        wrong="                    except ZeroDivisionError:\n",
        test=f"{DAMAGED_LISTS}::test_a_purge_that_loses_its_lock_says_what_it_did",
    ),
    "a copy of everything writes into the original": Bug(
        "reclaim.run.sweep.removal",
        right="    same_storage = planned.storage in (None, store.storage.url)\n",
        wrong="    same_storage = True\n",
        test="tests/collect/apply/test_stale_copies.py"
        "::test_an_undo_in_a_copy_of_everything_writes_nothing_into_the_original",
    ),
    "a plan that was only compared vouches for itself": Bug(
        "reclaim.run.apply.first_record",
        right="        vouched=not context.basis.compared,\n",
        wrong="        vouched=True,\n",
        test="tests/collect/apply/test_trust.py::test_a_plan_without_a_record_vouches_for_nothing",
    ),
    "markers are forgotten by a plan that was made anew": Bug(
        "reclaim.run.apply.apply_plan",
        right="if damaged and context.basis.compared and context.removal.name == MARKED:\n",
        wrong="if False:\n",
        test=f"{DAMAGED_MARKERS}::test_a_damaged_record_and_a_plan_without_one",
    ),
    "a damaged note of an undo is passed over": Bug(
        "reclaim.run.record.damaged_notes",
        right="        if folder_of(note) == RETURNED:\n",
        wrong="        if False:\n",
        test=f"{DAMAGED_MARKERS}::test_a_damaged_note_of_an_undo[False]",
    ),
    "a note that may tell of something is passed over": Bug(
        "reclaim.run.record.damaged_notes",
        right="    if unknown:\n",
        wrong="    if False:\n",
        test=f"{DAMAGED_MARKERS}::test_a_damaged_note_that_is_needed",
    ),
    "a note that no task wrote is read": Bug(
        "reclaim.engine.tasks.recall",
        right="    except (pa.ArrowException, KeyError, ValueError) as error:\n",
        wrong="    except ZeroDivisionError as error:\n",
        test=f"{DAMAGED_LISTS}::test_a_note_that_no_task_wrote[other columns]",
    ),
    "a purge that left a run looks done": Bug(
        "reclaim.run.purge.purge",
        right="        if done.failed or done.skipped:\n            raise",
        wrong="        if done.failed:\n            raise",
        test=f"{DAMAGED_LISTS}::test_a_run_that_cannot_be_purged_holds_up_no_other",
    ),
    "a plan goes on with a run whose plan is elsewhere": Bug(
        "reclaim.run.apply.preconditions",
        right="    if run.place != str(place):\n",
        wrong="    if False:\n",
        test=f"{LISTS}::test_a_plan_with_the_id_of_a_finished_run",
    ),
    "a plan goes on with a run that was made from another": Bug(
        "reclaim.run.apply.preconditions",
        right="    if run.plan != planned.digest and not (trusted and not run.plan):\n",
        wrong="    if False:\n",
        test=f"{LISTS}::test_another_plan_in_the_place_of_a_finished_run_s",
    ),
    "a window ends with its repository": Bug(
        "reclaim.run_record",
        right="        return self.quarantine is not None or",
        wrong="        return",
        test=f"{ORPHANS}::test_a_window_of_a_deleted_repository_stays_open",
    ),
    "orphans outlive their repository": Bug(
        "reclaim.stores.catalog.format",
        right="(*kinds, UNKNOWN, QUARANTINE, EPOCH)",
        wrong="(*kinds, UNKNOWN, EPOCH)",
        test=f"{ORPHANS}::test_orphans_go_with_a_deleted_repository",
    ),
}
