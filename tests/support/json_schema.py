"""The schemas of answers, and the comparison of an answer with its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"


@cache
def load(name: str) -> Mapping[str, Any]:
    """A schema by the name of its file."""
    schema: Mapping[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return schema


@cache
def validator(name: str) -> Draft202012Validator:
    """What compares documents with a schema."""
    Draft202012Validator.check_schema(load(name))
    return Draft202012Validator(load(name))


def mistakes(document: Any, name: str) -> Iterator[str]:
    """What is wrong with a document, and where."""
    for error in validator(name).iter_errors(document):
        closest = best_match([error]) or error
        yield f"{closest.json_path}: {closest.message}"


def check_answer(arguments: Sequence[str], document: Any) -> None:
    """Fail unless the answer of a command line is as its schema says."""
    name = schema_of(arguments, document)
    wrong = list(mistakes(document, name))
    assert not wrong, f"{' '.join(arguments)}: {name}.json: {'; '.join(wrong[:5])}"


def schema_of(arguments: Sequence[str], document: Any) -> str:
    """The name of the schema for the answer of a command line."""
    if isinstance(document, dict) and document.keys() == {"error"}:
        return "error"
    if "--version" in arguments:
        return "version"
    names = {file.stem for file in FOLDER.glob("*.json")}
    groups = {name.partition("-")[0] for name in names if "-" in name}
    words = iter(arguments)
    for word in words:
        if word in ("--catalog", "--log-format"):
            next(words)
            continue
        if word in groups:
            verb = next(following for following in words if f"{word}-{following}" in names)
            return f"{word}-{verb}"
        if word in names:
            return word
    raise AssertionError(f"there is no schema for {arguments}")
