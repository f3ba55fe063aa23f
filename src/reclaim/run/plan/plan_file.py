"""The file ``plan.json``, read by people and by an apply.

It has a hash of itself and of each list: a modified plan is refused. An editor of all files can
correct the hashes; see ``trust``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from reclaim.engine.tasks.parts import Place
from reclaim.errors import NotFound, PlanRefused, UnknownVersion
from reclaim.run.plan.plan_document import FORMAT, PlanDocument, Where, hash_of
from reclaim.storage import Storage

FILE = "plan.json"


def write(storage: Storage, place: Place, document: PlanDocument) -> PlanDocument:
    """Write a plan; return it with its hash."""
    sealed = document.sealed()
    storage.put(place.at(FILE), json.dumps(sealed.model_dump(mode="json"), indent=2).encode())
    return sealed


def find(storage: Storage, location: str) -> tuple[Place, PlanDocument]:
    """Read the plan in the root of a storage; return its original location as well."""
    document = read(storage, Place(storage.url, ""))
    place = Place(document.place.url, document.place.prefix)
    if str(place) != storage.url:
        raise PlanRefused(
            f"the plan at {location} was written to {place} and moved from there",
            hint="make a new plan, with --out for its final location",
        )
    return place, document


def read(storage: Storage, place: Place) -> PlanDocument:
    """Read a plan. Refuse a modified plan."""
    body = _body(storage, place)
    format = body.get("format")
    if format != FORMAT:
        older = isinstance(format, int) and format < FORMAT
        raise UnknownVersion(
            f"the plan at {place} has format {format}, and this Reclaim reads plans of format "
            f"{FORMAT}",
            hint="make a new plan with `reclaim plan`; the old one was not changed"
            if older
            else "apply it with the version of Reclaim that made it, or make a new plan",
        )
    try:
        document = PlanDocument.model_validate_json(json.dumps(body))
    except ValidationError as error:
        raise PlanRefused(f"{place}/{FILE} is not a plan", hint="make a new plan") from error
    return document


class PlannedRun(NamedTuple):
    """Run of a plan, and the storage and uid of its store."""

    run: str
    storage: str | None
    uid: str | None


def find_run(storage: Storage, location: str) -> tuple[Place, PlannedRun]:
    """Return the original location and the run of the plan in the root of a storage, of any format.

    The run may have promised to restore objects, whatever its format.
    """
    body = _body(storage, Place(storage.url, ""))
    try:
        known = Where.model_validate(body["place"])
        run = str(body["run"])
        planned_for = body.get("store", {})
        planned = PlannedRun(run, planned_for.get("storage"), planned_for.get("uid"))
    except (KeyError, AttributeError, ValidationError) as error:
        raise PlanRefused(f"{location}/{FILE} is not a plan", hint="make a new plan") from error
    place = Place(known.url, known.prefix)
    if str(place) != storage.url:
        raise PlanRefused(f"the plan at {location} was written to {place} and moved from there")
    return place, planned


def _body(storage: Storage, place: Place) -> Mapping[str, Any]:
    """Read the file at a location. Refuse a modified file."""
    try:
        data = storage.get(place.at(FILE))
    except NotFound as error:
        raise NotFound(
            f"there is no plan at {place}", hint="make one with `reclaim plan`"
        ) from error
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PlanRefused(f"{place}/{FILE} is not a plan", hint="make a new plan") from error
    if not isinstance(body, dict):
        raise PlanRefused(f"{place}/{FILE} is not a plan", hint="make a new plan")
    format = body.get("format")
    if isinstance(format, int) and format <= FORMAT and body.get("digest") != hash_of(body):
        raise PlanRefused(
            f"the plan at {place} was changed after it was written",
            hint="make a new plan; a plan cannot be edited by hand",
        )
    return body
