"""Full collection: list all objects of a store, and delete those no live container lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.answers import Candidates, ContainerFiles, Surveyed
from reclaim.engine.requests import ExpandRequest, FindRequest
from reclaim.engine.tasks.parts import Part, Place, write_part
from reclaim.run.plan.context import PlanContext
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_kind import FullRunReason, MarkedContainers, ObjectListing, PlanKind
from reclaim.storage import LISTED, KeyRange
from reclaim.stores.base import Store
from reclaim.stores.format import DecodesSnapshots, SurveysContainers
from reclaim.stores.observation import Observation, Survey
from reclaim.urls import is_odd


class Collection(PlanKind):
    """Collection of all unreferenced objects."""

    lists_all = True

    def list(self, place: Place) -> ObjectListing:
        return list_store(self.context, place)

    def mark(
        self,
        seen: Observation,  # noqa: ARG002
        decided: Decided,  # noqa: ARG002
        named: pa.Table,
        listing: ObjectListing,
    ) -> MarkedContainers:
        containers = expand(self.context, named, listing.surveyed)
        return MarkedContainers(containers, containers.parts, dead=containers)

    def judge(self, request: FindRequest, seen: Observation) -> Candidates:  # noqa: ARG002
        return pipelines.find(self.context.engine, request)


def make_collection(context: PlanContext, full_run_reason: FullRunReason | None) -> Collection:  # noqa: ARG001
    """Make the default kind of run."""
    return Collection(context)


def list_store(context: PlanContext, place: Place) -> ObjectListing:
    """List all objects of a store, and write the listing to a folder."""
    store, engine = context.store, context.engine
    format = store.format
    ranges = [
        keys for keys in format.key_ranges(store.storage) if not context.is_skipped(keys.prefix)
    ]
    partitions = _partitions(store, ranges)
    if not isinstance(format, DecodesSnapshots):
        return ObjectListing(engine.list(format, ranges, place), partitions)
    # Snapshots are files, read a single time during the listing.
    of_snapshots = [keys for keys in ranges if format.has_snapshots(keys)]
    surveyed: Surveyed | None = None
    if isinstance(format, SurveysContainers) and format.surveys_containers:
        below = context.work.below("surveyed")
        surveyed = engine.survey_containers(format, of_snapshots, below)
        rows = surveyed.rows
    else:
        rows = engine.survey(format, of_snapshots)
    others = [keys for keys in ranges if not format.has_snapshots(keys)]
    objects = engine.list(format, others, place)
    if rows.num_rows:
        listed = write_part(context.storage, place.at("survey.parquet"), rows.select(LISTED.names))
        objects = replace(objects, parts=(listed, *objects.parts))
    return ObjectListing(objects, partitions, Survey(rows, context.started_at), surveyed)


def expand(
    context: PlanContext,
    named: pa.Table,
    surveyed: Surveyed | None = None,
    known: Sequence[Part] = (),
) -> ContainerFiles:
    """Read the containers of snapshots, including those of dead snapshots only."""
    return pipelines.expand(
        context.engine,
        ExpandRequest(
            context.store.format,
            named,
            context.place.below("containers"),
            known=known,
            surveyed=surveyed,
        ),
    )


def by_partition(folders: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group folders by partition name, without folders outside partitions."""
    named: dict[str, list[str]] = {}
    for folder, partition in folders:
        if partition:
            named.setdefault(partition, []).append(folder)
    return named


def _partitions(store: Store, ranges: Sequence[KeyRange]) -> dict[str, list[str]]:
    folders = [keys.prefix for keys in ranges if not is_odd(f"{keys.prefix}/_")]
    inside = pa.array([f"{folder}/_" for folder in folders], pa.string())
    partitions = store.format.describe(inside).field("guard").to_pylist()
    return by_partition(zip(folders, partitions, strict=True))
