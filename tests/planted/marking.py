"""Bugs of quarantine in a bucket that keeps versions: delete markers, and versions of others."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

MARKERS = "tests/collect/quarantine/test_markers.py"
NEVER_COVERED = Change(
    "reclaim.engine.tasks.delete_markers",
    right="""        if kept is not None and kept.latest:
            # It was noted""",
    wrong="""        if False:
            # It was noted""",
)
NO_COMMITS = Change(
    "reclaim.run.roots.promises",
    right="    if not promised.num_rows:\n",
    wrong="    if True:\n",
)
VERSIONS = "tests/collect/plan/test_foreign_versions.py"
DAMAGED_MARKERS = "tests/collect/quarantine/test_damaged_markers.py"

BUGS: dict[str, Bug] = {
    "what commits under delete markers need is not asked for": Bug(
        "reclaim.engine.tasks.promised",
        right="        if not version.marker:\n",
        wrong="        if version.latest and not version.marker:\n",
        test=f"{MARKERS}::test_what_commits_under_markers_share_stays",
    ),
    "what others wrote over a covered container ends its protection": Bug(
        "reclaim.engine.tasks.promised",
        right="            yield _Covered(bucket, version)\n",
        wrong="            yield _Covered(bucket, version)\n            return\n",
        test=f"{MARKERS}::test_what_commits_under_markers_share_stays_whoever_writes_over_them",
    ),
    "a copy over a marker is known by its etag alone": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="own = versions[0].id in covered.copies and not versions[0].marker",
        wrong="own = False",
        test=f"{VERSIONS}::test_a_copy_with_another_etag_is_known_again",
    ),
    "markers are set whether or not the bucket keeps versions": Bug(
        "reclaim.engine.tasks.delete_markers",
        drops="CoverWithMarkers.page: _check_versioning",
        test=f"{VERSIONS}::test_a_bucket_that_is_suspended_while_markers_are_set[before]",
    ),
    "a marker in the place of the bytes is as good as any": Bug(
        "reclaim.engine.tasks.delete_markers",
        drops="CoverWithMarkers.page: _check_markers",
        test=f"{VERSIONS}::test_a_bucket_that_is_suspended_while_markers_are_set[within]",
    ),
    "what is covered already is covered again": Bug(
        "reclaim.storage.buckets",
        right="""== 404:
                    return None
                raise
""",
        wrong="""== 404:
                    return next((one for one in self.versions_of(address) if not one.marker), None)
                raise
""",
        test=f"{VERSIONS}::test_what_is_covered_is_not_covered_again",
        sequence="two plans of the same",
        besides=(
            Change(
                "reclaim.run.roots.promises",
                right="if run.purging or (quarantine.removal != MARKED and not run.unfinished):",
                wrong="if not run.unfinished:",
            ),
            NO_COMMITS,
        ),
    ),
    "whether the bucket still keeps versions is not asked": Bug(
        "reclaim.run.sweep.removal",
        right="""_check_versioning(store, "switch the bucket's""",
        wrong="""_ = (store, "switch the bucket's""",
        test=f"{VERSIONS}::test_versioning_suspended_in_between",
        sequence="versioning suspended in between",
    ),
    "a version that is current is deleted": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="if (kept := _find(older, item.covered)) is not None:",
        wrong="if (kept := _find(item.versions, item.covered)) is not None:",
        test=f"{VERSIONS}::test_the_current_version_is_never_deleted",
        sequence="markers that were not written",
        besides=(NEVER_COVERED,),
    ),
    "what was never covered counts as brought back": Bug(
        NEVER_COVERED.module,
        NEVER_COVERED.right,
        NEVER_COVERED.wrong,
        sequence="markers that were not written",
    ),
    "what was written over a covered version is taken for it": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="return next((version for version in named if version.etag == covered.etag), None)",
        wrong="return next(named, None)",
        sequence="other bytes while versioning is suspended",
    ),
    "which versions are about to be covered is not written down": Bug(
        "reclaim.engine.tasks.delete_markers",
        drops="CoverWithMarkers.page: write_note",
        test=f"{DAMAGED_MARKERS}::test_markers_without_a_journal",
        sequence="markers without a journal, and a purge",
    ),
    "a purge takes what failed": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="return Taken(FAILED, identity, failed[target.address])",
        wrong="return Taken(FAILED, None, failed[target.address])",
        test=f"{VERSIONS}::test_a_purge_by_identity",
        sequence="a purge of a run that ended halfway",
    ),
    "a purge takes what another run has covered": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="return Taken(FAILED, identity, failed[target.address])",
        wrong="return Taken(FAILED, None, failed[target.address])",
        sequence="a purge of a run that ended halfway, and another run",
        besides=(
            Change(
                "reclaim.run.roots.promises",
                right="if run.purging or (quarantine.removal != MARKED and not run.unfinished):",
                wrong="if True:",
            ),
            NO_COMMITS,
        ),
    ),
}
