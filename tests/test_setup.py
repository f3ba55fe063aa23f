"""What scripts/setup.sh decides, with stubs for Python, Java and Debian's tools."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "setup.sh"
TOOLS = ("bash", "cat", "dirname", "env", "grep", "sort", "touch", "uniq")


class Machine:
    """A made-up machine: a PATH with nothing on it but basic tools and stubs, and a home."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.home = folder / "home"
        self.env = {"PATH": str(self.bin), "HOME": str(self.home), "LC_ALL": "C"}
        self.bin.mkdir()
        self.home.mkdir()
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path is not None
            (self.bin / tool).symlink_to(path)
        self.stub("id", "echo 1000")

    def stub(self, name: str, body: str, folder: Path | None = None) -> Path:
        file = (folder or self.bin) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!{shutil.which('bash')}\n{body}\n", encoding="utf-8")
        file.chmod(0o755)
        return file

    def python(self, version: str, name: str, level: str = "final", folder: str = "") -> str:
        """A Python that answers the question of the script with this version."""
        place = self.home / folder if folder else self.bin
        file = place / name
        self.stub(name, f"echo {version.replace('.', ' ')} {level} {file}", place)
        return str(file)

    def java(self, version: str, name: str = "java", folder: Path | None = None) -> Path:
        line = f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"
        return self.stub(name, f"echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2\n{line}", folder)

    def debian(self, *, root: bool, java: str) -> Path:
        """apt-get that logs its calls and, for a JRE, puts a Java of this version in place."""
        log = self.home / "apt.log"
        self.java(java, name="java.new")
        move = f'{shutil.which("cp")} "{self.bin}/java.new" "{self.bin}/java"'
        self.stub(
            "apt-get", f'echo "$*" >>"{log}"\ncase "$*" in *default-jre-headless) {move} ;; esac'
        )
        if root:
            self.stub("id", "echo 0")
        return log

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def _chosen(machine: Machine) -> str:
    done = machine.run("--print-python")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_newest_python_on_the_path_is_chosen(machine: Machine) -> None:
    machine.python("3.11.9", "python3")
    machine.python("3.9.18", "python3.9")
    newest = machine.python("3.13.0", "python3.13")
    machine.python("3.12.4", "python3.12")
    assert _chosen(machine) == newest


def test_minor_and_micro_versions_are_compared_as_numbers(machine: Machine) -> None:
    machine.python("3.12.9", "python3.12")
    newest = machine.python("3.12.10", "python3")
    assert _chosen(machine) == newest


def test_pyenv_and_uv_are_searched(machine: Machine) -> None:
    machine.python("3.11.2", "python3")
    pyenv = machine.python("3.12.1", "python", folder=".pyenv/versions/3.12.1/bin")
    assert _chosen(machine) == pyenv
    uv = machine.python("3.13.1", "python3", folder=".local/share/uv/python/cpython-3.13/bin")
    assert _chosen(machine) == uv


def test_pyenv_root_is_respected(machine: Machine) -> None:
    machine.env["PYENV_ROOT"] = str(machine.home / "elsewhere")
    pyenv = machine.python("3.12.1", "python", folder="elsewhere/versions/3.12.1/bin")
    assert _chosen(machine) == pyenv


def test_a_pre_release_is_ignored(machine: Machine) -> None:
    machine.python("3.15.0", "python3.15", level="candidate")
    stable = machine.python("3.12.1", "python3.12")
    assert _chosen(machine) == stable


def test_a_python_that_cannot_make_a_venv_is_ignored(machine: Machine) -> None:
    machine.stub("python3.14", "echo 'No module named ensurepip' >&2; exit 1")
    usable = machine.python("3.12.1", "python3.12")
    assert _chosen(machine) == usable


def test_other_names_on_the_path_are_not_tried(machine: Machine) -> None:
    touched = machine.home / "touched"
    machine.stub("python3.13-config", f'touch "{touched}"')
    machine.python("3.12.1", "python3.12")
    _chosen(machine)
    assert not touched.exists()


def test_no_python_gives_one_sentence(machine: Machine) -> None:
    machine.python("3.10.13", "python3")
    done = machine.run("--print-python")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Please install Python 3.11 or newer")


@pytest.mark.parametrize("version", ["17.0.15", "17", "21-ea", "25.0.1"])
def test_a_new_enough_java_passes_silently(machine: Machine, version: str) -> None:
    machine.java(version)
    done = machine.run("--check-java")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("version", [None, "1.8.0_392", "11.0.22", "16"])
def test_without_java_or_rights_there_is_one_sentence(
    machine: Machine, version: str | None
) -> None:
    if version:
        machine.java(version)
    log = machine.debian(root=False, java="17.0.1")
    machine.stub("sudo", "exit 1")
    done = machine.run("--check-java")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr == (
        "Please install Java 17 or newer (on Debian: default-jre-headless) and run this again.\n"
    )
    assert not log.exists()


def test_without_apt_there_is_one_sentence_even_for_root(machine: Machine) -> None:
    machine.stub("id", "echo 0")
    done = machine.run("--check-java")
    assert done.returncode != 0
    assert done.stderr.startswith("Please install Java 17 or newer")
    assert done.stderr.count("\n") == 1


def test_root_gets_java_installed(machine: Machine) -> None:
    log = machine.debian(root=True, java="17.0.15")
    done = machine.run("--check-java")
    assert done.returncode == 0, done.stderr
    update, install = log.read_text().splitlines()
    assert update.startswith("update")
    assert install.startswith("install -y")
    assert install.endswith("--no-install-recommends default-jre-headless")


def test_what_root_will_install_is_said_before(machine: Machine) -> None:
    log = machine.debian(root=True, java="21.0.2")
    stop = f'[[ -s "{machine.home}/said" ]] || echo too early >"{machine.home}/early"'
    apt = (machine.bin / "apt-get").read_text(encoding="utf-8").split("\n", 1)[1]
    machine.stub("apt-get", f"{stop}\n{apt}")
    with (machine.home / "said").open("w", encoding="utf-8") as said:
        subprocess.run(
            [SCRIPT, "--check-java"], env=machine.env, stderr=said, check=True, timeout=30
        )
    assert log.read_text(encoding="utf-8")
    assert not (machine.home / "early").exists()
    first, second = (machine.home / "said").read_text(encoding="utf-8").splitlines()
    assert "as root: default-jre-headless" in first
    assert "RECLAIM_NO_ROOT=1" in second


def test_root_can_be_left_out(machine: Machine) -> None:
    log = machine.debian(root=True, java="21.0.2")
    machine.env["RECLAIM_NO_ROOT"] = "1"
    done = machine.run("--check-java")
    assert done.returncode == 1
    assert done.stderr.startswith("Please install Java 17 or newer")
    assert not log.exists()


def test_passwordless_sudo_gets_java_installed(machine: Machine) -> None:
    log = machine.debian(root=False, java="21.0.2")
    machine.stub("sudo", '[[ "$1" == -n ]] || exit 1\nshift\n[[ "$1" == true ]] || exec "$@"')
    done = machine.run("--check-java")
    assert done.returncode == 0, done.stderr
    assert len(log.read_text().splitlines()) == 2


def test_an_installed_java_that_is_too_old_is_noticed(machine: Machine) -> None:
    log = machine.debian(root=True, java="11.0.22")
    done = machine.run("--check-java")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("Please install Java 17 or newer")
    assert log.read_text().splitlines()[-1].endswith("openjdk-17-jre-headless")


def test_java_home_comes_before_the_path(machine: Machine) -> None:
    machine.java("17.0.15")
    machine.java("11.0.22", folder=machine.home / "jdk" / "bin")
    machine.env["JAVA_HOME"] = str(machine.home / "jdk")
    done = machine.run("--check-java")
    assert done.returncode != 0
    assert done.stderr == (
        "Please point JAVA_HOME to Java 17 or newer, or unset it, and run this again.\n"
    )


def test_an_unknown_option_is_refused(machine: Machine) -> None:
    done = machine.run("--frobnicate")
    assert done.returncode != 0
    assert "--frobnicate" in done.stderr
