"""A hook of mkdocs: adds every page of docs/decisions to the index of the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    folder = Path(config["docs_dir"])
    pages = sorted(
        (folder / "decisions").glob("*.md"), key=lambda page: (page.stem != "index", page)
    )
    config["nav"].append({"Decisions": [page.relative_to(folder).as_posix() for page in pages]})
    return config
