"""The schemas of answers, and a small check of a document against one.

It knows the words of JSON Schema that the schemas use, and refuses any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_NOTES = {"$schema", "title", "description", "$defs", "format"}
_KNOWN = _NOTES | {
    "$ref",
    "type",
    "enum",
    "anyOf",
    "pattern",
    "items",
    "properties",
    "required",
    "additionalProperties",
}


@cache
def load(name: str) -> Mapping[str, Any]:
    """A schema by the name of its file."""
    schema: Mapping[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return schema


def mistakes(document: Any, schema: Any, at: str = "$") -> Iterator[str]:
    """What is wrong with a document, and where."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{at} is not expected"
        return
    if unknown := schema.keys() - _KNOWN:
        raise NotImplementedError(f"the check does not know {sorted(unknown)}")
    if "$ref" in schema:
        file, _, path = schema["$ref"].partition("#/$defs/")
        yield from mistakes(document, load(file.removesuffix(".json"))["$defs"][path], at)
    if "anyOf" in schema:
        each = [list(mistakes(document, option, at)) for option in schema["anyOf"]]
        if all(each):
            # One that is of another type altogether is not what was meant.
            closest = sorted(each, key=lambda wrong: (wrong[0].startswith(f"{at} is "), len(wrong)))
            yield f"{at} fits none: {'; '.join(closest[0])}"
    if "enum" in schema and document not in schema["enum"]:
        yield f"{at} is {document!r}, not one of {schema['enum']}"
    if "type" in schema and not _is_a(document, schema["type"]):
        yield f"{at} is {repr(document)[:60]}, and should be {schema['type']}"
        return
    if "pattern" in schema and not re.search(schema["pattern"], document):
        yield f"{at} is {document!r}, and should match {schema['pattern']}"
    if isinstance(document, list):
        for number, item in enumerate(document):
            yield from mistakes(item, schema.get("items", True), f"{at}[{number}]")
    if isinstance(document, dict):
        known = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in document:
                yield f"{at}.{name} is missing"
        for name, value in document.items():
            inner = known.get(name, schema.get("additionalProperties", True))
            yield from mistakes(value, inner, f"{at}.{name}")


def _is_a(document: Any, types: str | Sequence[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    # A boolean is an int in Python, and is no number in JSON.
    return any(
        isinstance(document, _TYPES[name])
        and (name == "boolean" or not isinstance(document, bool) or name == "null")
        for name in names
    )


def check_answer(arguments: Sequence[str], document: Any) -> None:
    """Fail unless the answer of a command line is as its schema says."""
    name = schema_of(arguments, document)
    wrong = list(mistakes(document, load(name)))
    assert not wrong, f"{' '.join(arguments)}: {name}.json: {'; '.join(wrong[:5])}"


def schema_of(arguments: Sequence[str], document: Any) -> str:
    """The name of the schema for the answer of a command line."""
    if isinstance(document, dict) and document.keys() == {"error"}:
        return "error"
    if "--version" in arguments:
        return "version"
    if any(option in arguments for option in ("--install-completion", "--show-completion")):
        return "completion"
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
