"""Signals to end a command: SIGINT (Ctrl-C) and SIGTERM (schedulers)."""

from __future__ import annotations

import os
import signal
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM. It ends a command like Ctrl-C, with the same clean-up."""


ENDS: dict[int, type[KeyboardInterrupt]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
}


def exit_code(number: int) -> int:
    """Return the exit code of a process ended by a signal, as in shells."""
    return 128 + number


def install() -> None:
    """End the command in order at the first signal, and the process at once at the second.

    Only for the process of a command; a program with the library handles its own signals.
    """
    ending = False

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal ending
        if ending:
            os._exit(exit_code(number))
        ending = True
        raise ENDS[number]

    for number in ENDS:
        # The parent process may want a signal to be ignored, as shells do for `&`.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
