"""The person, machine and command behind a run, for its record."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
import sys
from pathlib import Path

from reclaim.run_record import Operator
from reclaim.urls import HIDDEN, redacted

LONGEST = 2_000
"""Recorded characters of a command."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOGIN = re.compile(r":[^:]*@")


def current_operator() -> Operator:
    """Return the user and the command of this process, without secrets."""
    program = Path(sys.argv[0]).name if sys.argv else ""
    words = [program, *map(_shown, sys.argv[1:])]
    return Operator(_user(), socket.gethostname(), shlex.join(words)[:LONGEST])


def with_current(operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """Return the operators of a run, with this process appended unless it is the last."""
    current = current_operator()
    return operators if operators[-1:] == (current,) else (*operators, current)


def _user() -> str:
    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _shown(word: str) -> str:
    """Return an argument without the passwords and tokens of a URL in it."""
    if url := _URL.search(word):
        return word[: url.start()] + redacted(word[url.start() :])
    return HIDDEN if _LOGIN.search(word) else word
