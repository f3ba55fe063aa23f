"""What the pages show is what happens: every example is run, and its output compared."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.documents.likeness import Likeness
from tests.documents.page import read_examples
from tests.documents.shell import Shell
from tests.terminus.samples import unpack

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/tutorials/catalog.md",
    "docs/tutorials/nightly.md",
    "docs/tutorials/review.md",
    "docs/tutorials/terminusdb.md",
    "docs/how-to/leases.md",
    "docs/how-to/quarantine-and-undo.md",
    "docs/how-to/schedule.md",
    "docs/reference/exit-codes.md",
    "docs/python.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page(
    page: str, shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    if page.endswith("terminusdb.md"):
        unpack("archive", folder).folder.rename(folder / "storage")
    likeness = Likeness(str(folder))
    ran = 0
    for example in read_examples(ROOT / page):
        if example.language == "python":
            with redirect_stdout(io.StringIO()) as printing:
                exec(compile(example.text, page, "exec"), {"__name__": "__main__"})
            printed = printing.getvalue()
        else:
            printed = shell.run(likeness.command(example.text))
        if example.shown is not None:
            differences = likeness.differences(example.shown, printed)
            assert not differences, f"{page}:{example.line}\n{differences}\n\n{printed}"
        ran += 1
    assert ran


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("a\n...\n", "a\nb\n", True),
        ("a\n...\nc\n", "a\nb\n", False),
        ("a\n", "a\nb\n", False),
        ("a\nb\n", "a\n", False),
        ("at 2026-01-01 10:00:00 UTC\n", "at 2031-12-31 23:59:59 UTC\n", True),
        ("commit 0123456789ab\n", "commit ba9876543210\n", True),
        ("0123456789ab is 0123456789ab\n", "000000000001 is 000000000001\n", True),
        ("0123456789ab is 0123456789ab\n", "000000000001 is 000000000002\n", False),
        ("in /tmp/demo/plan\n", "in /elsewhere/plan\n", True),
        ("5 objects  8.2 KiB\n", "5 objects     8.2 KiB\n", True),
        ("5 objects  8.2 KiB\n", "6 objects  8.2 KiB\n", False),
        ("5 objects (12.2 KiB, 26%)\n", "5 objects (9.8 KiB, 7%)\n", True),
        ("5 objects (12 B)\n", "5 objects (11 B)\n", False),
    ],
)
def test_what_counts_as_alike(shown: str, printed: str, same: bool) -> None:
    assert (not Likeness("/elsewhere").differences(shown, printed)) == same


def test_commands_have_the_ids_of_today() -> None:
    likeness = Likeness("/elsewhere")
    assert not likeness.differences("run 0123456789abcdef\n", "run fedcba9876543210\n")
    assert likeness.command("undo 0123456789ab") == "undo fedcba987654"
    assert likeness.command("undo 999999999999") == "undo 999999999999"
