"""Abilities of stores that keep the rules which runs follow."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class KeepsPolicy(Protocol):
    """A store that keeps a policy of retention for whoever plans.

    What it keeps is a text; ``policy.stored`` says what is in it.
    """

    def stored_policy(self) -> str | None:
        """The text as it was stored; None only if none was. One that cannot be read is an error."""
        ...

    def store_policy(self, document: str | None) -> None:
        """Store a text in place of the one that there is, whole or not at all; None removes it."""
        ...


@runtime_checkable
class KeepsLifecycle(Protocol):
    """A store that keeps lifecycle rules for whoever plans by them; see ``policy.lifecycle``."""

    def stored_lifecycle(self) -> str | None:
        """The text as it was stored; None only if none was. One that cannot be read is an error."""
        ...

    def store_lifecycle(self, document: str | None) -> None:
        """Store a text in place of the one that there is, whole or not at all; None removes it."""
        ...
