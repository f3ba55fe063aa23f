"""The examples for schedulers: their commands are run, and the files are read by who can here."""

from __future__ import annotations

import ast
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from reclaim.errors import Corrupt, Gone, InvalidInput, NotFound, Refused
from tests.documents.shell import Shell

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_the_commands_of_the_examples(shell: Shell) -> None:
    shell.run("reclaim init && reclaim repo create sales")
    commands = [*_kubernetes(), *_systemd(), *_airflow()]
    assert len(commands) == 6
    for arguments in commands:
        printed = shell.run(f"reclaim {shlex.join(arguments)}; echo exit $?")
        assert printed.endswith("exit 0\n"), (arguments, printed)


def test_exit_codes_that_need_a_person_are_the_same_everywhere() -> None:
    (codes,) = [
        ast.literal_eval(statement.value)
        for statement in _dag().body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == "NEEDS_A_PERSON"
    ]
    hopeless = (InvalidInput, NotFound, Refused, Corrupt, Gone)
    assert codes == {error.exit_code for error in hopeless}
    for job in _jobs():
        (rule,) = job["podFailurePolicy"]["rules"]
        assert set(rule["onExitCodes"]["values"]) == codes


def test_the_recipe_of_the_image() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    checked = subprocess.run(
        [hadolint, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout) == (0, "")
    recipe = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {
        name
        for line in recipe
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    }
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in copied} <= set(sent)
    assert all((ROOT / name).exists() for name in copied)


def test_the_units_of_systemd(tmp_path: Path) -> None:
    for name in ("reclaim.service", "reclaim.timer"):
        # The command is where the reader has put it; here it is elsewhere.
        text = (EXAMPLES / "systemd" / name).read_text()
        text = text.replace("/opt/reclaim/bin/reclaim", sys.executable)
        (tmp_path / name).write_text(text.replace("User=reclaim\n", ""))
        _unit(name)
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        files = [tmp_path / "reclaim.service", tmp_path / "reclaim.timer"]
        subprocess.run([analyze, "verify", "--man=no", *files], check=True)
        (when,) = _unit("reclaim.timer")["Timer"]["OnCalendar"]
        subprocess.run([analyze, "calendar", when], check=True, stdout=subprocess.DEVNULL)


def test_the_jobs_of_kubernetes_name_what_they_have() -> None:
    for job in _jobs():
        pod = job["template"]["spec"]
        (container,) = pod["containers"]
        mounted = [mount["name"] for mount in container["volumeMounts"]]
        assert mounted == [volume["name"] for volume in pod["volumes"]]
        (rule,) = job["podFailurePolicy"]["rules"]
        assert rule["onExitCodes"]["containerName"] == container["name"]
        # Kubernetes asks for it where a failure has rules.
        assert pod["restartPolicy"] == "Never"


def _jobs() -> Iterator[Any]:
    """What each job is made of, of those that Kubernetes runs."""
    for manifest in yaml.safe_load_all((EXAMPLES / "kubernetes" / "cronjob.yaml").read_text()):
        assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "CronJob")
        yield manifest["spec"]["jobTemplate"]["spec"]


def _kubernetes() -> Iterator[list[str]]:
    for job in _jobs():
        (container,) = job["template"]["spec"]["containers"]
        yield container["args"]


def _unit(name: str) -> dict[str, dict[str, list[str]]]:
    """The sections of a unit; a key can be there more than once."""
    unit: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in (EXAMPLES / "systemd" / name).read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, separator, value = line.partition("=")
            assert separator, line
            unit.setdefault(section, {}).setdefault(key, []).append(value)
    return unit


def _systemd() -> Iterator[list[str]]:
    service = _unit("reclaim.service")["Service"]
    for line in (*service["ExecStart"], *service["ExecStopPost"]):
        command, *arguments = shlex.split(line)
        assert Path(command).name == "reclaim"
        yield arguments


def _dag() -> ast.Module:
    return ast.parse((EXAMPLES / "airflow" / "reclaim_nightly.py").read_text())


def _airflow() -> Iterator[list[str]]:
    for node in ast.walk(_dag()):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run":
            yield [*map(ast.literal_eval, node.args), "--json"]
