"""Plans by the ids of their runs."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import reclaim
from reclaim.catalog import Catalog
from reclaim.errors import NotFound
from reclaim.ids import short
from reclaim.stores.registry import find
from tests.cli.conftest import CommandLine
from tests.terminus.test_cli import Place

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture(autouse=True)
def garbage(cli: CommandLine, location: Path) -> None:
    """Some commits, of which a policy keeps a part."""
    # Closed at the end: the uploads are in no open partition any more.
    with Catalog.open(location) as catalog:
        branch = catalog.repository("sales").branch("main")
        for number in range(4):
            branch.put("a.csv", b"x" * (100 + number))
            branch.commit(f"Commit {number}")


def made(cli: CommandLine, *more: str, repository: str = "sales") -> Any:
    return cli.ok("plan", repository, "--min-age", "0", "--keep-last", "2", *more, "--json").json


def test_a_plan_is_named_by_its_run(cli: CommandLine) -> None:
    said = cli.ok("plan", "sales", "--min-age", "0", "--keep-last", "2").out
    plan = cli.ok("show", "latest", "--json").json
    run = plan["run"]
    lines = said.splitlines()
    assert lines[0].startswith(f"Plan {short(run)} for sales, made ")
    assert lines[1] == f"Files: {plan['plan']}"
    assert said.count(plan["plan"]) == 1
    assert f"reclaim show {short(run)} --objects" in said
    assert lines[-1] == f"To edit the history and delete them: reclaim apply {short(run)}"
    for name in (run, short(run), run[:4], plan["plan"]):
        assert cli.ok("show", name, "--json").json == plan
    done = cli.ok("apply", short(run), "--yes", "--json").json
    assert (done["run"], done["objects"]) == (run, plan["candidates"])
    digest = ("--digest", plan["digest"])
    assert "the plan was already applied" in cli.ok("apply", "latest", "--yes", *digest).out
    said = cli.ok("runs", "sales").out
    assert short(run) in said
    assert run not in said
    assert [one["id"] for one in cli.ok("runs", "--json").json["runs"]] == [run]


def test_the_latest_plan_needs_a_confirmation_or_its_digest(cli: CommandLine) -> None:
    """Somebody else may have made another plan meanwhile, of another repository."""
    plan = made(cli)
    refused = cli.fails("refused", 6, "apply", "latest", "--yes")
    assert "another plan may be the latest" in refused["message"]
    assert cli.ok("runs", "--json").json["runs"] == []
    assert cli.ok("apply", "latest", "--yes", "--digest", plan["digest"], "--json").json["objects"]


def test_latest_is_the_newest_plan_of_all_repositories(cli: CommandLine) -> None:
    cli.ok("repo", "create", "other")
    first = made(cli)
    assert cli.ok("show", "latest", "--json").json["run"] == first["run"]
    second = made(cli, repository="other")
    assert cli.ok("show", "latest", "--json").json["run"] == second["run"]
    in_sales = cli.ok("show", "latest", "--store", "sales", "--json").json
    assert in_sales["run"] == first["run"]
    assert cli.fails("not_found", 3, "show", short(first["run"]), "--store", "other")
    # The files that a run left beside no plan are not a plan.
    shutil.rmtree(second["plan"])
    Path(second["plan"]).mkdir()
    assert cli.ok("show", "latest", "--json").json["run"] == first["run"]
    assert cli.fails("not_found", 3, "show", short(second["run"]))


def test_names_that_no_plan_has(cli: CommandLine, tmp_path: Path) -> None:
    assert "there is no plan yet" in cli.fails("not_found", 3, "show", "latest")["message"]
    outside = made(cli, "--out", str(tmp_path / "plan"))
    said = cli.ok("show", str(tmp_path / "plan")).out
    assert f"reclaim apply {tmp_path / 'plan'}" in said
    error = cli.fails("not_found", 3, "apply", short(outside["run"]), "--yes")
    assert "--out" in error["hint"]
    for name in ("sales", "abc", "ABCD", "0" * 33):
        assert "4 or more" in cli.fails("not_found", 3, "show", name)["hint"]


def test_a_start_that_several_plans_have(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reclaim.ids.secrets.token_hex", lambda count: "ab" * count)
    first, second = made(cli), made(cli)
    error = cli.fails("invalid_input", 2, "apply", "abab", "--yes")
    assert error["details"] == {"plans": sorted([first["run"], second["run"]])}
    assert "for sales" in error["message"]


def test_the_plan_of_another_run_in_its_place_is_refused(
    cli: CommandLine, catalog: Catalog, tmp_path: Path
) -> None:
    cli.ok("repo", "create", "other")
    plan, other = made(cli), made(cli, repository="other")
    shutil.rmtree(plan["plan"])
    shutil.copytree(other["plan"], plan["plan"])
    for command in (("show",), ("apply", "--yes")):
        cli.fails("plan_refused", 6, *command, short(plan["run"]))
    shutil.rmtree(plan["plan"])
    assert find(catalog, "sales").find_run(plan["run"]) is None


def test_in_python(cli: CommandLine, location: Path) -> None:
    plan = made(cli)
    with reclaim.open_store("sales", catalog=location, engine="local") as store:
        for name in (short(plan["run"]), "latest", plan["plan"]):
            assert store.open_plan(name).run_id == plan["run"]
        with pytest.raises(NotFound, match="there is no plan 0000"):
            store.open_plan("0000")
        assert store.open_plan("latest").apply().objects == plan["candidates"]


def test_a_folder_with_the_name_of_a_plan_needs_a_slash(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made(cli)
    monkeypatch.chdir(tmp_path)
    Path("latest").mkdir()
    assert cli.ok("show", "latest", "--json").json["run"] == plan["run"]
    assert "there is no plan at" in cli.fails("not_found", 3, "show", "./latest")["message"]
    shutil.copytree(plan["plan"], "copied")
    said = cli.ok("show", "copied").out
    assert "applied only there" in said
    assert "reclaim show " + str(tmp_path / "copied") in said


def test_a_plan_of_another_store(cli: CommandLine, tmp_path: Path) -> None:
    store = Place(tmp_path / "a store").name
    said = cli.ok("plan", store).out
    name = said.split()[1]
    assert len(name) == 12
    assert cli.fails("not_found", 3, "show", name)
    for command in ("show", "apply"):
        line = next(line for line in said.splitlines() if f"reclaim {command} " in line)
        _, *words = shlex.split(line.partition("reclaim ")[2])
        assert words[0] == name
        cli.ok(command, *words, *["--yes"] * (command == "apply"))
