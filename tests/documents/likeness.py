"""Comparing output with what a page shows: ids, times and folders differ from day to day.

So do the sizes of containers, which hold ids and times; what is smaller than a KiB is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ANYTHING = "..."
"""A line that stands for any number of lines."""

_ID = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_TIME = re.compile(r"\b\d\d:\d\d(?::\d\d)?\b")
_SIZE = re.compile(r"\b\d+\\\.\d KiB")
_SHARE = re.compile(r"\b\d+%")
_SHOWN_FOLDER = "/tmp/demo"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Likeness:
    """What has been learnt of a page so far: which id of today stands for which that it shows."""

    folder: str
    ids: dict[str, str] = field(default_factory=dict)

    def command(self, text: str) -> str:
        """A command with the ids of today."""
        return _ID.sub(lambda shown: self._today(shown[0]) or shown[0], text)

    def differences(self, shown: str, printed: str) -> str:
        """Where output is not like what is shown; "" if it is."""
        expected = shown.splitlines()
        lines = [_STYLE.sub("", line).rstrip() for line in printed.splitlines()]
        while expected:
            line = expected.pop(0)
            if line == ANYTHING:
                if not expected:
                    return ""
                while lines and not self._like(expected[0], lines[0]):
                    lines.pop(0)
                continue
            if not lines:
                return f"missing: {line}"
            if not self._like(line, lines[0]):
                return f"shown:   {line}\nprinted: {lines[0]}"
            lines.pop(0)
        return "\n".join(f"not shown: {line}" for line in lines)

    def _like(self, shown: str, printed: str) -> bool:
        pattern, names = self._pattern(shown.rstrip())
        found = re.fullmatch(pattern, printed)
        if found is None:
            return False
        self.ids.update(zip(names, found.groups(), strict=True))
        return True

    def _pattern(self, shown: str) -> tuple[str, list[str]]:
        """A pattern with a group for each id that is new; columns may be wider or narrower."""
        names: list[str] = []

        def id_pattern(found: re.Match[str]) -> str:
            today = self._today(found[0])
            if today is not None:
                return today
            if found[0] in names:
                return rf"\{names.index(found[0]) + 1}"
            names.append(found[0])
            return f"([0-9a-f]{{{len(found[0])}}})"

        text = re.escape(shown.replace(_SHOWN_FOLDER, self.folder)).replace(r"\-", "-")
        text = re.sub(r"(?:\\ ){2,}", r" {2,}", text)
        text = _DATE.sub(r"\\d{4}-\\d\\d-\\d\\d", text.replace(r"\ ", " "))
        text = _TIME.sub(lambda found: ":".join([r"\d\d"] * len(found[0].split(":"))), text)
        text = _SHARE.sub(r"\\d+%", _SIZE.sub(r"\\d+\\.\\d KiB", text))
        return _ID.sub(id_pattern, text), names

    def _today(self, shown: str) -> str | None:
        """The id of today for one that is shown, whole or by its first digits."""
        for known, today in self.ids.items():
            if known.startswith(shown):
                return today[: len(shown)]
        return None
