"""Imports inside reclaim go downward only. Read from the source; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

SOURCE = Path(__file__).resolve().parent.parent / "src" / "reclaim"

# From bottom to top. Rooms on one level do not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "garbage_collector", "ids", "process", "safety", "text"),
    ("model",),
    ("run_record",),
    ("clock",),
    ("renewal",),
    ("lock", "lease"),
    ("policy", "history"),
    ("urls", "globs"),
    ("operators",),
    ("storage",),
    ("catalog",),
    ("stores", "filesystem"),
    ("engine",),
    ("run",),
    ("report", "progress"),
    ("api",),
    ("testing",),
    ("demo",),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
TOP = LAYERS[-1][0]

# Pure rooms decide from what they are given: no input, no output, no clock.
PURE = {"policy", "history"}
PURE_MAY_IMPORT = {"errors", "model"}
PURE_BANNED = {"pyspark", "sqlalchemy", "obstore", "pyarrow", "time"}

LIBRARY_ROOMS = {
    "pyspark": {"engine", "stores", "run", "api"},
    "sqlalchemy": {"catalog"},
    "obstore": {"storage"},
    "fsspec": {"filesystem"},
}
PYSPARK_AT_TOP = "reclaim/engine/spark/"

# What is in stores/ and is no kind of store.
SHARED_BY_STORES = {
    "abilities",
    "base",
    "declared",
    "findings",
    "format",
    "named_containers",
    "observation",
    "registry",
    "sidecar",
}

CLOCK_ROOM = "clock"
CLOCK_CALLS = {
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
}


@dataclass(frozen=True)
class Import:
    """One imported name, such as `reclaim.model` or `pyspark.sql.DataFrame`."""

    name: str
    line: int
    at_top: bool


@dataclass(frozen=True)
class Module:
    """What the rules need to know of one source file."""

    path: str
    room: str
    imports: tuple[Import, ...]
    calls: tuple[tuple[str, int], ...]


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _imports(node: ast.AST, package: list[str], at_top: bool = True) -> Iterator[Import]:
    """All imports below `node`. Those in functions or under TYPE_CHECKING do not run on import."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, at_top)
        elif isinstance(child, ast.ImportFrom):
            base = package[: len(package) - child.level + 1] if child.level else []
            prefix = [*base, *([child.module] if child.module else [])]
            for alias in child.names:
                yield Import(".".join([*prefix, alias.name]), child.lineno, at_top)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(child, package, at_top=False)
        elif isinstance(child, ast.If) and _is_type_checking(child.test):
            for part in child.body:
                yield from _imports(ast.Module([part], []), package, at_top=False)
            for part in child.orelse:
                yield from _imports(ast.Module([part], []), package, at_top=at_top)
        else:
            yield from _imports(child, package, at_top=at_top)


def _bound_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: `dt` for `datetime` after `import datetime as dt`."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                bound[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return bound


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


def _references(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Full dotted names that are used, called or not: `key=time.time` reads the clock as well."""
    bound = _bound_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            dotted = _dotted(node)
            if dotted:
                head, _, rest = dotted.partition(".")
                if head in bound:
                    yield f"{bound[head]}.{rest}" if rest else bound[head], node.lineno


def read_modules(source: Path) -> list[Module]:
    """Every Python file below `source`, which is the folder of the package `reclaim`."""
    modules = []
    for file in sorted(source.rglob("*.py")):
        relative = file.relative_to(source)
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        package = ["reclaim", *relative.parent.parts]
        room = relative.parts[0].removesuffix(".py")
        modules.append(
            Module(
                path=f"reclaim/{relative.as_posix()}",
                room="" if relative.name == "__init__.py" and len(relative.parts) == 1 else room,
                imports=tuple(_imports(tree, package)),
                calls=tuple(_references(tree)),
            )
        )
    return modules


def _check_room(module: Module) -> Iterator[str]:
    if module.room and module.room not in LEVEL:
        yield (
            f"{module.path}: the room '{module.room}' has no layer; "
            "add it to LAYERS in tests/test_layers.py at the height where it belongs."
        )


def _check_direction(module: Module) -> Iterator[str]:
    if module.room not in LEVEL:
        return
    for found in module.imports:
        top, _, rest = found.name.partition(".")
        if top != "reclaim":
            continue
        target = rest.split(".")[0]
        where = f"{module.path}:{found.line}"
        if target not in LEVEL:
            if module.room != TOP:
                yield f"{where}: only '{TOP}' may import from the bare package reclaim."
        elif target == module.room:
            continue
        elif module.room in PURE and target not in PURE_MAY_IMPORT:
            yield f"{where}: '{module.room}' is pure and may not import '{target}'."
        elif LEVEL[target] >= LEVEL[module.room]:
            yield f"{where}: '{module.room}' may not import '{target}', which is not below it."


def _check_libraries(module: Module) -> Iterator[str]:
    for found in module.imports:
        library = found.name.split(".")[0]
        where = f"{module.path}:{found.line}"
        if module.room in PURE and library in PURE_BANNED:
            yield f"{where}: '{module.room}' is pure and may not import {library}."
        elif library in LIBRARY_ROOMS and module.room not in LIBRARY_ROOMS[library]:
            allowed = ", ".join(sorted(LIBRARY_ROOMS[library]))
            yield f"{where}: only {allowed} may import {library}."
        elif library == "pyspark" and found.at_top and not module.path.startswith(PYSPARK_AT_TOP):
            yield f"{where}: import pyspark inside the function that needs it."


def _check_stores(module: Module) -> Iterator[str]:
    """A kind of store is known to its own folder and, by a line of text, to the registry."""
    folder = module.path.removeprefix("reclaim/").split("/")
    for found in module.imports:
        parts = found.name.split(".")
        if parts[:2] != ["reclaim", "stores"] or len(parts) < 3 or parts[2] in SHARED_BY_STORES:
            continue
        if folder[:2] != ["stores", parts[2]] and folder[:2] != ["testing", parts[2]]:
            yield (
                f"{module.path}:{found.line}: only the folder of a kind of store names it; "
                "ask the registry, or for an ability."
            )


def _check_engines(module: Module) -> Iterator[str]:
    """The engines do not know each other; what both run knows neither."""
    room = module.path.removeprefix("reclaim/engine/").split("/")[0]
    banned = {"local": ("spark",), "spark": ("local",)}.get(room, ("local", "spark"))
    if not module.path.startswith("reclaim/engine/"):
        return
    for found in module.imports:
        parts = found.name.split(".")
        if parts[:2] == ["reclaim", "engine"] and len(parts) > 2 and parts[2] in banned:
            yield f"{module.path}:{found.line}: '{room}' may not import the engine '{parts[2]}'."


def _check_clock(module: Module) -> Iterator[str]:
    if module.room == CLOCK_ROOM:
        return
    for name, line in module.calls:
        if name in CLOCK_CALLS:
            yield f"{module.path}:{line}: {name} is read only in reclaim/{CLOCK_ROOM}.py."


CHECKS = (
    _check_room,
    _check_direction,
    _check_libraries,
    _check_stores,
    _check_engines,
    _check_clock,
)


def violations(source: Path) -> list[str]:
    """One sentence for each broken rule."""
    return [
        sentence
        for module in read_modules(source)
        for check in CHECKS
        for sentence in check(module)
    ]


def test_reclaim_keeps_its_layers() -> None:
    found = violations(SOURCE)
    assert not found, "\n" + "\n".join(found)


def _broken(tmp_path: Path, files: dict[str, str]) -> list[str]:
    source = tmp_path / "reclaim"
    for name, text in files.items():
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return violations(source)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cli/main.py", "from reclaim import __version__\nfrom reclaim.run import go\n"),
        ("run.py", "from reclaim.policy import x\nfrom reclaim import policy, catalog\n"),
        ("run.py", "def go() -> None:\n    import pyspark\n"),
        (
            "stores/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark\n",
        ),
        ("stores/a/x.py", "from reclaim.stores.a import y\nfrom . import b\n"),
        (
            "stores/a/x.py",
            "from reclaim.stores.base import y\nimport reclaim.stores.sidecar.lock\n",
        ),
        ("testing/a/x.py", "from reclaim.stores.a import y\n"),
        ("engine/spark/a.py", "import pyspark\n"),
        ("engine/local/a.py", "from reclaim.engine.tasks import x\n"),
        ("engine/spark/a.py", "from reclaim.engine.pipelines import x\n"),
        ("storage.py", "import obstore\n"),
        ("storage/s3.py", "import obstore\nfrom ..model import x\n"),
        ("catalog/db.py", "import sqlalchemy\n"),
        ("clock.py", "import datetime\nimport time\ndatetime.datetime.now()\ntime.time()\n"),
        ("policy/a.py", "from datetime import datetime, timedelta\nfrom reclaim.model import x\n"),
        ("run.py", "import time\ntime.monotonic()\ntime.sleep(1)\n"),
        ("run.py", "clock.now()\n"),
        ("__init__.py", "def __getattr__(name):\n    from reclaim.run import go\n    return go\n"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, name: str, text: str) -> None:
    assert _broken(tmp_path, {name: text}) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("attic.py", "", "the room 'attic' has no layer"),
        ("attic/box.py", "", "add it to LAYERS in tests/test_layers.py"),
        ("model.py", "from reclaim.run import go\n", "'model' may not import 'run'"),
        ("model.py", "import reclaim.run\n", "'model' may not import 'run'"),
        ("model.py", "from reclaim import run\n", "'model' may not import 'run'"),
        ("model/a.py", "from ..run import go\n", "'model' may not import 'run'"),
        ("model.py", "from .run import go\n", "'model' may not import 'run'"),
        ("model.py", "def f() -> None:\n    import reclaim.run\n", "may not import 'run'"),
        ("errors.py", "try:\n    import reclaim.model\nfinally:\n    pass\n", "import 'model'"),
        ("catalog/a.py", "from reclaim.stores.base import x\n", "may not import 'stores'"),
        ("demo.py", "import reclaim\n", "from the bare package"),
        ("run.py", "from reclaim import __version__\n", "from the bare package"),
        ("policy.py", "from reclaim.history import x\n", "pure and may not import 'history'"),
        ("history.py", "from reclaim.policy import x\n", "pure and may not import 'policy'"),
        ("policy.py", "from reclaim.clock import x\n", "pure and may not import 'clock'"),
        ("policy.py", "import pyspark\n", "pure and may not import pyspark"),
        ("policy.py", "import sqlalchemy\n", "pure and may not import sqlalchemy"),
        ("history.py", "import obstore\n", "pure and may not import obstore"),
        ("history.py", "import pyarrow as pa\n", "pure and may not import pyarrow"),
        ("history.py", "from time import sleep\n", "pure and may not import time"),
        ("catalog.py", "def f():\n    import pyspark\n", "may import pyspark"),
        ("__init__.py", "import pyspark\n", "may import pyspark"),
        ("stores/a.py", "import pyspark.sql\n", "inside the function"),
        ("engine/tasks/a.py", "import pyspark.sql\n", "inside the function"),
        (
            "run.py",
            "try:\n    from pyspark import sql\nexcept E:\n    pass\n",
            "inside the function",
        ),
        ("run.py", "class A:\n    import pyspark\n", "inside the function"),
        ("run.py", "from reclaim.stores.a import x\n", "ask the registry"),
        ("run.py", "from reclaim.stores import a\n", "ask the registry"),
        ("stores/registry.py", "def f():\n    import reclaim.stores.a\n", "ask the registry"),
        ("stores/b/x.py", "from reclaim.stores.a import x\n", "only the folder"),
        ("engine/local/a.py", "from reclaim.engine.spark import x\n", "the engine 'spark'"),
        ("engine/spark/a.py", "from reclaim.engine.local.engine import x\n", "the engine 'local'"),
        ("engine/tasks/a.py", "import reclaim.engine.local\n", "the engine 'local'"),
        ("engine/work/a.py", "import reclaim.engine.spark.frames\n", "the engine 'spark'"),
        ("engine/pipelines/a.py", "import reclaim.engine.local\n", "the engine 'local'"),
        ("engine/in_process.py", "from reclaim.engine.spark import x\n", "the engine 'spark'"),
        ("stores/a.py", "from sqlalchemy import orm\n", "may import sqlalchemy"),
        ("stores/a.py", "import obstore\n", "may import obstore"),
        ("run.py", "import datetime\ndatetime.datetime.now()\n", "datetime.datetime.now is read"),
        ("run.py", "import datetime as d\nd.datetime.utcnow()\n", "datetime.datetime.utcnow is"),
        ("run.py", "from datetime import datetime\ndatetime.now(tz)\n", "datetime.datetime.now is"),
        ("run.py", "from datetime import datetime as D\nf = D.now\n", "datetime.datetime.now is"),
        ("run.py", "from datetime import date\ndate.today()\n", "datetime.date.today is"),
        ("run.py", "import time\ntime.time()\n", "time.time is read"),
        ("run.py", "from time import time as t\nt()\n", "time.time is read"),
        ("testing/a.py", "import time\ntime.time_ns()\n", "time.time_ns is read"),
    ],
)
def test_each_rule_can_fail(tmp_path: Path, name: str, text: str, expected: str) -> None:
    found = _broken(tmp_path, {name: text})
    assert len(found) == 1, found
    assert expected in found[0]


def test_a_source_tree_with_few_rooms_is_fine(tmp_path: Path) -> None:
    assert _broken(tmp_path, {"__init__.py": "", "errors.py": ""}) == []
