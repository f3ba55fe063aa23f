"""Values that stay as they are given.

Typer converts values with pydantic, which takes longer to load than many commands run. It would
turn text into the same text, a count into the same count, and nothing into nothing.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

PLAIN = {str: str, str | None: str, int: int, int | None: int}
"""The types of values that are not converted if they have them, by what a parameter says."""


class Command(TyperCommand):
    """A command whose options and arguments convert only what they must."""

    def get_params(self, ctx: Any) -> Any:
        return [_with_plain_values(parameter) for parameter in super().get_params(ctx)]


class CommandGroup(TyperGroup):
    """The same for a command with commands of its own."""

    def get_params(self, ctx: Any) -> Any:
        return [_with_plain_values(parameter) for parameter in super().get_params(ctx)]


def _with_plain_values(parameter: Any) -> Any:
    # Where a later typer keeps its converters elsewhere, it converts as it did.
    if getattr(parameter, "_runtime_param", True) is None and parameter.nargs == 1:
        parameter._runtime_param = _PlainValues(parameter)
    return parameter


class _PlainValues:
    """Converts the values of one parameter, in the place of typer's own converter."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter
        annotation = parameter.type_descriptor.annotation
        self._type = next((plain for said, plain in PLAIN.items() if said == annotation), None)

    def coerce(self, value: Any, *context: Any, **named_context: Any) -> Any:
        parameter = self._parameter
        if not parameter.multiple and (value is None or type(value) is self._type):
            return value
        # Without this one typer makes its own.
        parameter._runtime_param = None
        return parameter.get_runtime_param().coerce(value, *context, **named_context)
