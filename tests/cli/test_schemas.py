"""The schemas of answers: one for each command, and pages that know every kind.

Every other test that calls a command with --json compares its answer with its schema as well.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from reclaim.cli.commands.apply import NOTHING_APPLIED
from reclaim.run.plan.plan_document import PlanDocument, StoreName
from reclaim.run.sweep.removal import OPTIONS
from reclaim.run_record import Phase
from reclaim.stores.catalog.format import CatalogFormat
from reclaim.stores.terminus.format import TerminusFormat
from scripts import schemas
from tests.cli.commands import LEAVES
from tests.cli.conftest import CommandLine
from tests.cli.test_help import all_errors
from tests.support.json_schema import FOLDER, load, mistakes, schema_of

PAGE = FOLDER.parent / "json.md"
EXTRA = {"error", "version"}


def test_every_command_has_a_schema() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == EXTRA | {
        "-".join(name) for name in LEAVES
    }


@pytest.mark.skipif(sys.version_info < (3, 12), reason="pydantic reads TypedDict from 3.12 on")
@pytest.mark.parametrize("name", sorted(schemas.ANSWERS))
def test_a_schema_is_the_one_of_the_types(name: str) -> None:
    """After a change of a type: ``make schemas``."""
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == schemas.text(name)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: file.stem)
def test_a_schema_says_what_it_is_for_and_leaves_nothing_open(file: Path) -> None:
    schema = json.loads(file.read_text())
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if "properties" in part:
                assert part["additionalProperties"] is False
                assert set(part["required"]) <= set(part["properties"])
            if "$ref" in part:
                assert part["$ref"].removeprefix("#/$defs/") in schema["$defs"]
            for inner in part.values():
                walk(inner)

    walk(schema)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"leases": [{}]}, "$.leases[0]: 'id' is a required property"),
        ({"leases": 3}, "$.leases: 3 is not of type 'array'"),
        ({"leases": [], "more": 1}, "('more' was unexpected)"),
        ({}, "$: 'leases' is a required property"),
    ],
)
def test_the_check_notices(document: Any, said: str) -> None:
    assert any(said in wrong for wrong in mistakes(document, "lease-list"))


def test_the_check_notices_times_and_types() -> None:
    lease = {"id": "l", "commit": "c", "holder": "h"}
    times = {"refreshed_at": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00+00:00"}
    [wrong] = mistakes({**lease, **times}, "lease-hold")
    assert "$.until" in wrong
    assert list(mistakes({"version": True}, "version"))
    assert list(mistakes({"run": "x"}, "undo"))
    both = {"path": "a", "repository": "sales"}
    assert list(mistakes(both, "put"))


def test_errors_have_a_schema(cli: CommandLine) -> None:
    failed = cli("ls", "none/main", "--json")
    assert schema_of(["ls", "none/main"], failed.json) == "error"


def test_every_kind_is_documented() -> None:
    text = PAGE.read_text()
    told = set(re.findall(r"`([a-z_]+)`", text))
    kinds = {error.kind for error in all_errors()}
    kinds |= {"usage", "unexpected", "interrupted", "terminated"}
    kinds |= set(Phase) | {name for name in OPTIONS if name}
    kinds |= {*CatalogFormat("memory://", "0" * 32, deleted=True).order}
    kinds |= {*TerminusFormat("memory://", "store").order}
    assert kinds <= told
    rows = dict(re.findall(r"^\| (`[^|]+`) \| (\d+)[^|]* \|", text, re.M))
    for error in all_errors():
        [code] = [code for names, code in rows.items() if f"`{error.kind}`" in names]
        assert int(code) == error.exit_code


def test_a_plan_has_the_fields_of_its_file() -> None:
    fields = load("plan")["properties"].keys()
    assert fields == PlanDocument.model_fields.keys() | {
        "plan",
        "moved_from",
        "not_recorded",
        "commits",
    }
    store = load("plan")["$defs"]["StoreName"]["properties"].keys()
    assert store == StoreName.model_fields.keys()
    assert load("show")["anyOf"][0]["properties"].keys() == fields | {"listed", "held"}


def test_an_apply_has_the_fields_of_its_summary() -> None:
    fields = load("apply")["properties"].keys() - {
        "run",
        "plan",
        "store",
        "already_applied",
        "finished_at",
    }
    assert fields == NOTHING_APPLIED.keys()
    assert fields <= load("gc")["$defs"]["StoreCollected"]["properties"].keys()
