"""Run benchmarks by name, or all of them."""

from __future__ import annotations

import sys

from bench import (
    catalog,
    collect,
    history,
    icechunk,
    lifecycle,
    lifecycle_wait,
    listing,
    start,
    terminus,
    uncommitted,
)

FIGURES = (
    catalog.FIGURES
    | history.FIGURES
    | collect.FIGURES
    | terminus.FIGURES
    | icechunk.FIGURES
    | listing.FIGURES
    | start.FIGURES
    | uncommitted.FIGURES
    | lifecycle.FIGURES
    | lifecycle_wait.FIGURES
)


KNOWN = FIGURES | uncommitted.LARGE


def main(names: list[str]) -> int:
    unknown = set(names) - set(KNOWN)
    if unknown:
        print(f"there is no figure {', '.join(sorted(unknown))}; there are {', '.join(KNOWN)}")
        return 2
    held = True
    for name in names or FIGURES:
        figure = KNOWN[name]()
        held = held and figure.holds(figure.median)
        print("\n".join(figure.lines()), flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
