"""Ask osv.dev whether the versions in constraints.txt have known vulnerabilities.

It never fails for want of a network: then it says that they could not be checked. What it finds it
says loudly, and fails only with AUDIT=strict, because an advisory of this morning must not break a
checkout of last year. AUDIT=off does not ask. What is sent is the names and versions, no more.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import urllib.request
from pathlib import Path

URL = "https://api.osv.dev/v1/querybatch"
SECONDS = 15
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)

Pins = list[tuple[str, str]]


def read_pins(text: str) -> Pins:
    """Names and versions; a package that differs between Pythons has several."""
    return sorted(set(PIN.findall(text)))


def ask(pins: Pins, url: str) -> dict[str, list[str]]:
    """The advisories by pin, as ``name==version``."""
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
        for name, version in pins
    ]
    request = urllib.request.Request(
        url, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        results = json.load(response)["results"]
    if len(results) != len(pins):
        raise ValueError(f"{len(results)} answers to {len(pins)} questions")
    return {
        f"{name}=={version}": [advisory["id"] for advisory in result["vulns"]]
        for (name, version), result in zip(pins, results, strict=True)
        if result.get("vulns")
    }


def ask_in_time(pins: Pins, url: str, seconds: float) -> dict[str, list[str]]:
    """The same within a time in all: a timeout of a connection is for each step of it."""
    answers: list[dict[str, list[str]]] = []
    problems: list[Exception] = []

    def work() -> None:
        try:
            answers.append(ask(pins, url))
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    raise problems[0] if problems else TimeoutError(f"no answer in {seconds:g} s")


def main(constraints: Path, *, mode: str = "", url: str = URL, seconds: float = SECONDS) -> int:
    if mode == "off":
        print("Known vulnerabilities were not checked (AUDIT=off).")
        return 0
    pins = read_pins(constraints.read_text(encoding="utf-8"))
    try:
        advisories = ask_in_time(pins, url, seconds)
    except Exception as error:
        print(f"Known vulnerabilities could not be checked at {url}: {error}")
        return 0
    if not advisories:
        print(f"No known vulnerabilities in {len(pins)} pinned versions (osv.dev).")
        return 0
    print(f"WARNING: {len(advisories)} pinned versions have known vulnerabilities:")
    for pin, ids in advisories.items():
        print(f"    {pin}: {', '.join(ids)}")
    print("Take newer versions with `make lock`; https://osv.dev/ID says what each is about.")
    return 1 if mode == "strict" else 0


if __name__ == "__main__":
    sys.exit(main(Path("constraints.txt"), mode=os.environ.get("AUDIT", "")))
