"""The summary of a plan, shown to people and used by an apply."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from reclaim.clock import from_micros
from reclaim.engine.answers import Candidates, ContainerFiles
from reclaim.engine.tasks import judging
from reclaim.engine.tasks.grouping import GroupSums, limit_folders
from reclaim.engine.tasks.parts import Part, Place
from reclaim.model import Lease, SnapshotId
from reclaim.policy import Policy, policy_document, policy_lines, unmatched_sentences
from reclaim.run.expire.released import release_command
from reclaim.run.plan.dead_snapshots import causes_of
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_document import (
    NO_SECTIONS,
    OF_RUNS,
    Counts,
    File,
    Group,
    HeldBy,
    HistoryChange,
    HistoryOnly,
    Large,
    LibraryEdit,
    Noncurrent,
    PlanDocument,
    PlanSections,
    StoreName,
    TooYoung,
    Where,
)
from reclaim.run.roots.protection import NO_PROTECTION, Protection
from reclaim.stores.abilities import ExpiresItself
from reclaim.stores.base import Store
from reclaim.stores.findings import abbreviate
from reclaim.stores.observation import Observation
from reclaim.stores.registry import name_of


@dataclass(frozen=True, slots=True)
class PlanFindings:
    """Inputs and results of making a plan."""

    run: str
    place: Place
    started_at: datetime
    cutoff: datetime
    policy: Policy
    policy_source: str
    library_edit: LibraryEdit | None
    inventory: str | None
    allowed_fraction: float
    versioning: str
    noncurrent: Noncurrent | None
    seen: Observation
    decided: Decided
    dead: Collection[SnapshotId]
    containers: ContainerFiles
    candidates: Candidates
    snapshots: Part
    protection: Protection = NO_PROTECTION
    sections: PlanSections = NO_SECTIONS


def summarize(store: Store, findings: PlanFindings) -> PlanDocument:
    """Make the document of a plan, without its hash."""
    seen, decided, candidates = findings.seen, findings.decided, findings.candidates
    containers, read = findings.containers, findings.candidates.read
    expired = decided.count_expired()
    return PlanDocument(
        run=findings.run,
        place=Where(url=findings.place.url, prefix=findings.place.prefix),
        store=StoreName(
            kind=store.kind,
            name=store.name,
            uid=store.uid,
            storage=store.storage.url,
            deleted=store.deleted,
            noun=store.noun,
            quarantines=store.quarantine_by_default,
        ),
        promise=store.safety_basis,
        started_at=findings.started_at,
        read_at=seen.read_at,
        cutoff=findings.cutoff,
        policy=list(policy_lines(findings.policy)),
        rules=policy_document(findings.policy),
        policy_source=findings.policy_source,
        library_edit=findings.library_edit,
        inventory=findings.inventory,
        versioning=findings.versioning,
        noncurrent=findings.noncurrent,
        objects=candidates.objects,
        bytes=candidates.size,
        candidates=sum(part.rows for part in candidates.parts),
        candidate_bytes=sum(size for _, size in candidates.verdict.going.values()),
        allowed_fraction=1.0 if store.deleted else findings.allowed_fraction,
        expected=Counts(
            snapshots=seen.expected.snapshots,
            containers=containers.containers,
            entries=containers.entries,
            held=seen.held_count,
        ),
        read=Counts(
            snapshots=seen.read.snapshots,
            containers=read.containers,
            entries=read.entries,
            held=read.held,
        ),
        refs=len(seen.refs),
        leases=len(seen.leases),
        live=len(decided.live),
        expired=expired.snapshots,
        held_by=[HeldBy(**holder.record()) for holder in expired.held_by],
        dead=len(findings.dead),
        too_young=_too_young(findings),
        history=_history(decided),
        going=_groups(candidates.verdict.going),
        staying=[] if findings.sections.history_only else _staying(candidates, store),
        largest=[
            Large(bytes=size, address=address, path=path)
            for size, address, path in candidates.verdict.largest
        ],
        warnings=[
            *seen.warnings,
            *_unmatched(findings.policy, seen, store),
            *_warnings(decided, store, findings.noncurrent),
            *_inexact(store, findings.sections.history_only),
            *_irreversible(store, findings.library_edit),
            *_odd(store, candidates),
            *_in_doubt(findings.protection, store),
            *_held_by_undos(seen.leases, store),
        ],
        causes=list(causes_of(seen, store.noun)),
        deleted_refs=[ref.name for ref in decided.edit.delete_refs],
        files=[File.of(part) for part in candidates.parts],
        containers=[File.of(part) for part in containers.parts],
        snapshots=File.of(findings.snapshots),
        protect=[] if store.deleted else list(seen.protect),
        protected=[File.of(part) for part in findings.protection.matches.parts],
        uncommitted=findings.sections.uncommitted,
        lifecycle=findings.sections.lifecycle,
        history_only=findings.sections.history_only,
    )


def _in_doubt(protection: Protection, store: Store) -> Iterator[str]:
    if unread := protection.matches.unread:
        yield (
            f"{unread} containers of removed {store.noun}s cannot be read: their entries may be "
            "protected, so nothing is deleted; delete these containers by hand to give up the "
            "protection"
        )


def _too_young(findings: PlanFindings) -> TooYoung | None:
    """Young objects and snapshots, without files of runs."""
    verdict, young = findings.candidates.verdict, findings.seen.young
    kinds = verdict.young.keys() - set(OF_RUNS)
    ends = [from_micros(end) for kind in kinds for end in verdict.young[kind]]
    if young is not None:
        margin = findings.started_at - findings.cutoff
        ends += [young.first + margin, young.last + margin]
    if not ends:
        return None
    counts = [verdict.staying[kind, judging.YOUNG] for kind in kinds]
    return TooYoung(
        objects=sum(objects for objects, _ in counts),
        bytes=sum(size for _, size in counts),
        snapshots=0 if young is None else young.count,
        first_at=min(ends),
        all_at=max(ends),
    )


def _history(decided: Decided) -> HistoryChange:
    released = decided.released()
    held = sum(1 for snapshot in released if snapshot in decided.live)
    return HistoryChange(reparented=len(decided.edit.reparent), released=len(released), held=held)


def _groups(tally: GroupSums) -> list[Group]:
    ordered = sorted(limit_folders(tally).items(), key=lambda item: (-item[1][1], item[0]))
    return [
        Group(
            objects=count,
            bytes=size,
            kind=kind,
            reason=reason,
            branch=branch,
            prefix=prefix,
            age=age,
        )
        for (kind, reason, branch, prefix, age), (count, size) in ordered
    ]


def _staying(candidates: Candidates, store: Store) -> list[Group]:
    groups = [
        Group(objects=count, bytes=size, kind=kind, reason=why)
        for (kind, why), (count, size) in sorted(candidates.verdict.staying.items())
    ]
    tallies = (candidates.verdict.going, candidates.verdict.staying)
    other_objects = sum(count for tally in tallies for count, _ in tally.values())
    other_bytes = sum(size for tally in tallies for _, size in tally.values())
    by = f"{store.noun}, staged, or upload in progress" if store.exact else store.noun
    live = Group(
        objects=candidates.objects - other_objects,
        bytes=candidates.size - other_bytes,
        kind="",
        reason=f"still referenced ({by})",
    )
    return [live, *groups]


def _warnings(decided: Decided, store: Store, noncurrent: Noncurrent | None) -> Iterator[str]:
    if noncurrent is not None:
        yield (
            "the bucket keeps versions, so deleting alone frees no space; it holds "
            f"{noncurrent.objects} noncurrent versions of this store ({noncurrent.bytes} bytes): "
            "expire them with a lifecycle rule of the bucket, or apply with --quarantine "
            "--markers and purge"
        )
    for base in decided.edit.touched_bases:
        yield (
            f"merging {base.branch} with the default branch will report every differing path as a "
            "conflict, because their merge base expires (keep_merge_bases keeps it)"
        )
    if decided.cut_off:
        names = abbreviate(sorted(decided.cut_off))
        yield (
            f"the store's library removes {len(decided.cut_off)} {store.noun}s from history "
            f"although the rules keep them, because they descend from older {store.noun}s: this "
            f"run keeps them; a later run deletes them unless a branch or tag points to them: "
            f"{names}"
        )


def _inexact(store: Store, history_only: HistoryOnly | None) -> Iterator[str]:
    if not store.exact and history_only is None:
        yield f"{store.noun}s that nothing refers to yet are protected by --min-age alone"


def _unmatched(policy: Policy, seen: Observation, store: Store) -> Sequence[str]:
    # A store that was deleted has no refs, and its rules decide on nothing.
    return () if store.deleted else unmatched_sentences(policy, seen.refs)


def _irreversible(store: Store, edit: LibraryEdit | None) -> Iterator[str]:
    if edit is not None and isinstance(store, ExpiresItself) and (sentence := store.irreversible()):
        yield sentence


def _held_by_undos(leases: Iterable[Lease], store: Store) -> Iterator[str]:
    name = name_of(store.kind, store.name, store.uid)
    ends: dict[str, datetime] = {}
    for lease in leases:
        if (run := lease.undone_run) is not None:
            ends[run] = max(lease.end, ends.get(run, lease.end))
    for run, end in sorted(ends.items()):
        yield (
            f"{store.noun}s restored by the undo of run {run} are held until {end:%F %T} UTC; to "
            f"release them sooner: {release_command(name, run)}"
        )


def _odd(store: Store, candidates: Candidates) -> Iterator[str]:
    count = sum(
        objects
        for (_, why), (objects, _) in candidates.verdict.staying.items()
        if why == judging.ODD
    )
    if count:
        noun = store.format.guard_noun
        folder = f", or a folder that is no {noun}" if noun else ""
        yield (
            f"{count} objects have odd keys and are left alone, such as "
            f"{', '.join(map(repr, candidates.verdict.odd))}: a control character, or a part that "
            f"is empty, '.' or '..'{folder}; if they are not needed, delete them with the "
            "storage's own tools"
        )
