"""Reading of policy documents in YAML or JSON, treated as untrusted input."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import yaml

from reclaim.errors import InvalidInput

MOST_CHARACTERS = 1_000_000
LONGEST_SHOWN = 200
DEEPEST = 20
"""A policy is four levels deep; much deeper documents are refused."""


def read_document(text: str, *, source: str) -> object:
    """Return the content of a file. Refuse duplicate and invalid keys, naming their position."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"{source} is longer than {MOST_CHARACTERS:,} characters")
    try:
        data: object
        if text.lstrip().startswith("{"):
            data = json.loads(text, object_pairs_hook=_once)
        else:
            data = yaml.load(text, _Loader)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InvalidInput(_unreadable(error, source)) from None
    return data


def _unreadable(error: Exception, source: str) -> str:
    """``rules.yaml:3:4: duplicate key keep_last``, with the position if known."""
    match error:
        case json.JSONDecodeError():
            return f"{source}:{error.lineno}:{error.colno}: not valid JSON: {error.msg.lower()}"
        case _Misplaced(problem=str(problem), problem_mark=yaml.Mark() as mark):
            return f"{source}:{mark.line + 1}:{mark.column + 1}: {problem}"
        case yaml.MarkedYAMLError(problem=str(problem), problem_mark=yaml.Mark() as mark):
            return f"{source}:{mark.line + 1}:{mark.column + 1}: not valid YAML: {problem}"
        case RecursionError():
            return f"{source}: nested too deeply"
        case _:
            return f"{source}: {error}"


def problem_text(problem: Mapping[str, Any]) -> str:
    """A problem reported by pydantic, as a sentence."""
    match problem["type"]:
        case "extra_forbidden":
            return "there is no such field"
        case "missing":
            return "is missing"
        case "greater_than_equal" | "int_type":
            return f"must be a whole number of at least 1, not {_short(problem['input'])}"
        case "value_error":
            return str(problem["ctx"]["error"])
        case _:
            message: str = problem["msg"]
            return f"{message[0].lower()}{message[1:]}, not {_short(problem['input'])}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"duplicate key {name}")
        fields[name] = value
    return fields


class _Misplaced(yaml.MarkedYAMLError):
    """Valid YAML at a position where a policy does not allow it."""


class _Loader(yaml.SafeLoader):
    """YAML loader refusing duplicate keys, aliases and deep nesting.

    Of duplicate keys, YAML silently keeps only the last. Aliases can expand a few lines beyond the
    size of memory, and unlimited nesting exhausts the stack.
    """

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise self._misplaced("aliases (*name) are not supported; write out their values")
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._misplaced(f"nested more than {DEEPEST} levels deep")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _misplaced(self, problem: str) -> _Misplaced:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        return _Misplaced(problem=problem, problem_mark=event.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if isinstance(name, str):
                if name in names:
                    raise _Misplaced(problem=f"duplicate key {name}", problem_mark=key.start_mark)
                names.add(name)
        return super().construct_mapping(node, deep)
