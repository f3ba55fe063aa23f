"""Plain English: few pronouns in docstrings, and no local variables named after them.

The limits are those of comparable projects. They keep the tone; a sentence is read before it
counts.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import walk

SOURCE = Path(__file__).resolve().parent.parent / "src" / "reclaim"
ROOMS = sorted(
    path.name
    for path in SOURCE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
)
"""Folders and modules of the package."""
LIMITS = {"what": 3, "one": 3, "that": 12}
"""Uses per 1,000 words of docstrings, and of the help of all commands."""
PRONOUNS = frozenset({"found", "one", "mine", "told"})
"""Names of local variables and parameters that do not name a thing."""


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Docstrings of modules, classes and functions, and strings below assignments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield text
            for before, after in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(before, ast.Assign | ast.AnnAssign)
                    and isinstance(after, ast.Expr)
                    and isinstance(after.value, ast.Constant)
                    and isinstance(after.value.value, str)
                ):
                    yield after.value.value


def count_words(trees: list[ast.Module]) -> dict[str, float]:
    """Uses of each limited word per 1,000 words of docstrings."""
    return count_texts(text for tree in trees for text in docstrings(tree))


def count_texts(texts: Iterable[str]) -> dict[str, float]:
    """Uses of each limited word per 1,000 words of texts."""
    words = Counter(word for text in texts for word in re.findall(r"[a-z']+", text.lower()))
    return {word: round(1000 * words[word] / max(1, words.total()), 1) for word in LIMITS}


def pronoun_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and names of variables and parameters that are pronouns, except keys of documents."""
    keys = {
        field.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and "TypedDict" in map(ast.unparse, node.bases)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if node in keys:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in PRONOUNS:
            yield node.lineno, node.id
        if isinstance(node, ast.arg) and node.arg in PRONOUNS:
            yield node.lineno, node.arg


def parse_room(room: str) -> dict[str, ast.Module]:
    """The modules of a folder with its subfolders, or of a single file."""
    path = SOURCE / room
    files = [path] if path.suffix else sorted(path.rglob("*.py"))
    assert files, f"{room} has no modules"
    return {
        file.relative_to(SOURCE).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in files
    }


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_are_plain(room: str) -> None:
    counted = count_words(list(parse_room(room).values()))
    assert {word: rate for word, rate in counted.items() if rate > LIMITS[word]} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_variable_is_a_pronoun(room: str) -> None:
    names = {
        f"{file}:{line}: {name}"
        for file, tree in parse_room(room).items()
        for line, name in pronoun_names(tree)
    }
    assert names == set()


def test_the_help_of_all_commands_is_plain() -> None:
    counted = count_texts(help_texts())
    assert {word: rate for word, rate in counted.items() if rate > LIMITS[word]} == {}


def help_texts() -> set[str]:
    """Help of all commands, arguments and options; a shared option counts once."""
    commands = [command for _, command in walk()]
    options = [option for command in commands for option in command.params]
    return {getattr(each, "help", None) or "" for each in (*commands, *options)}


def test_words_and_names_are_counted() -> None:
    text = '"""What one has."""\nfound = 1\n"""Told that."""\ndef f(mine): "What"\n'
    tree = ast.parse(text)
    assert count_words([tree]) == {"what": 333.3, "one": 166.7, "that": 166.7}
    assert sorted(pronoun_names(tree)) == [(2, "found"), (4, "mine")]
