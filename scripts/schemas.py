"""Write docs/schemas: a JSON Schema for the answer of each command, made of the types of answers."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, is_typeddict

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
INSTANT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"

Kind = type | tuple[type, ...]
"""The type of a document; or several types, whose fields it has all."""

ANSWERS: Mapping[str, tuple[Kind, ...]] = {}
"""The kinds of answers of each command; one that is not among them is a mistake."""

TITLES = {
    "completion": "reclaim --install-completion, --show-completion",
    "error": "The answer of a command that failed",
    "version": "reclaim --version",
}


class _Generator(GenerateJsonSchema):
    """Closed objects with the docstrings of their fields, and without titles and defaults."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": "string", "format": "date-time", "pattern": INSTANT}

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        return _closed(super().typed_dict_schema(schema), schema["cls"])

    def model_schema(self, schema: Any) -> dict[str, Any]:
        return _closed(super().model_schema(schema), schema["cls"])


def _closed(schema: dict[str, Any], cls: type) -> dict[str, Any]:
    """The schema of a class with the descriptions of its fields, and no field beside them."""
    schema.pop("title", None)
    for name, text in _field_docs(cls):
        schema["properties"][name]["description"] = text
    return schema | {"additionalProperties": False}


def _field_docs(cls: type) -> Iterator[tuple[str, str]]:
    """The docstrings of the fields of a class, its parents' first."""
    for parent in getattr(cls, "__orig_bases__", cls.__bases__):
        if is_typeddict(parent) or hasattr(parent, "model_fields"):
            yield from _field_docs(parent)
    for field, text in pairwise(_body(cls)):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                yield name, _plain(doc)


def _body(cls: type) -> list[ast.stmt]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # made by a call, so that its fields have no docstrings
        return []
    match ast.parse(source).body:
        case [ast.ClassDef(body=body)]:
            return body
    return []


def _plain(doc: str) -> str:
    return " ".join(doc.split()).replace("``", "`")


def schema(name: str) -> dict[str, Any]:
    """The schema of the answers of a command."""
    definitions: dict[str, Any] = {}
    kinds = [_kind(kind, definitions) for kind in ANSWERS[name]]
    whole: dict[str, Any] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    title = TITLES.get(name, f"reclaim {name.replace('-', ' ')}")
    return {"$schema": DIALECT, "title": title, **whole} | (
        {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    )


def _kind(kind: Kind, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of one kind of answer; definitions of other types are added to those given."""
    joined: dict[str, Any] = {}
    for part in kind if isinstance(kind, tuple) else (kind,):
        # As the items of a list, so that the type itself is a definition as well.
        made = TypeAdapter(list[part]).json_schema(  # type: ignore[valid-type]
            mode="serialization", schema_generator=_Generator
        )
        found = made.pop("$defs")
        own = found.pop(made["items"]["$ref"].removeprefix("#/$defs/"))
        own["description"] = _plain(own["description"])
        definitions |= found
        if joined:
            joined["properties"] |= own["properties"]
            joined["required"] += own["required"]
        else:
            joined = own
    return joined


def text(name: str) -> str:
    """The file with the schema of a command."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    for file in FOLDER.glob("*.json"):
        file.unlink()
    for name in ANSWERS:
        (FOLDER / f"{name}.json").write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
