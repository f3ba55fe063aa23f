"""Signals that end a command: Ctrl-C, and SIGTERM, by which schedulers end what they started."""

from __future__ import annotations

import os
import signal
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM. It ends a command like Ctrl-C does, with the same clean-up."""


ENDS: dict[int, type[KeyboardInterrupt]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
}


def exit_code(number: int) -> int:
    """The code that a shell gives to a process which a signal ended."""
    return 128 + number


def install() -> None:
    """Let the first signal end the command in order, and a second one the process at once.

    For the process of a command only: in a program that uses the library, signals are its own.
    """
    asked = False

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(exit_code(number))
        asked = True
        raise ENDS[number]

    for number in ENDS:
        # Whoever started the command may want it to ignore one: a shell does so for `&`.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
