"""What an optimized run has to look at, held to a plain model of objects, ranges and commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.run.uncommitted import scope
from reclaim.run.uncommitted.scope import FORMAT, Known, Mode, choose
from reclaim.storage import KeyRange
from tests.support.soak import MORE

Deed = tuple[str, int, int]
KINDS = (
    *("put", "put", "commit", "commit", "copy", "drop", "reset", "kill", "revive", "roll"),
    *("clean", "run", "run"),
)
HISTORIES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 99), st.integers(0, 99)), max_size=60
)
KNOWN = Known("r", FORMAT, "here", frozenset(), 0, frozenset(), frozenset())


@dataclass
class Checkpoint:
    """What a run leaves in the model."""

    known: Known
    ranges: frozenset[str]
    carried: set[str]


@dataclass
class Model:
    """Two writers, each with an open partition; addresses name their partitions."""

    ranges: dict[str, set[str]] = field(default_factory=dict)
    commits: dict[str, set[str]] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    staged: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)
    open: list[str] = field(default_factory=lambda: ["p0", "p1"])
    closed: set[str] = field(default_factory=set)
    checkpoint: Checkpoint | None = None
    index: dict[str, set[str]] = field(default_factory=dict)
    """The ranges that were read so far."""
    number: int = 2
    optimized: int = 0
    taken: int = 0

    def name(self, partition: str) -> str:
        self.number += 1
        return f"{partition}/{self.number}"

    def do(self, deed: Deed) -> None:
        kind, one, two = deed
        writer = self.open[one % 2]
        entries = sorted({a for c in self.live for r in self.commits[c] for a in self.ranges[r]})
        match kind:
            case "put":
                self.staged.add(address := self.name(writer))
                self.there.add(address)
            case "copy" if entries:
                # Of what is committed: the address is shared.
                self.staged.add(entries[two % len(entries)])
            case "drop" if self.staged:
                self.staged.discard(sorted(self.staged)[two % len(self.staged)])
            case "reset":
                self.staged.clear()
            case "commit":
                self.commit(writer, one, two)
            case "kill" if self.live:
                self.live.discard(sorted(self.live)[two % len(self.live)])
            case "revive" if whole := sorted(c for c in self.commits if self.is_whole(c)):
                self.live.add(whole[two % len(whole)])
            case "roll":
                self.closed.add(writer)
                self.open[one % 2] = f"p{self.number}"
                self.number += 1
            case "clean":
                self.run(optimized=False)
            case "run":
                self.run(optimized=True)

    def commit(self, writer: str, one: int, two: int) -> None:
        """A new range, which may hold old entries too, beside ranges of a parent."""
        parents = sorted(self.live)
        kept = set(self.commits[parents[one % len(parents)]]) if parents else set()
        entries = set(self.staged)
        if kept and two % 2:
            # It rewrites one of them.
            entries |= self.ranges[rewritten := sorted(kept)[two % len(kept)]]
            kept.discard(rewritten)
        self.ranges[name := self.name(writer)] = entries
        self.there.add(name)
        self.commits[commit := f"c{self.number}"] = kept | {name}
        self.live.add(commit)
        self.staged.clear()

    def is_whole(self, commit: str) -> bool:
        needed = {a for r in self.commits[commit] for a in (r, *self.ranges[r])}
        return needed <= self.there

    def needed(self) -> set[str]:
        ranges = self.live_ranges()
        return {*ranges, *(a for r in ranges for a in self.ranges[r]), *self.staged}

    def live_ranges(self) -> frozenset[str]:
        return frozenset(r for commit in self.live for r in self.commits[commit])

    def garbage(self) -> set[str]:
        """What a clean run takes."""
        return {a for a in self.there - self.needed() if partition_of(a) in self.closed}

    def run(self, *, optimized: bool) -> set[str]:
        then = self.checkpoint if optimized else None
        changes = then and scope.find_changes(then.known, live=self.live, there=set(self.commits))
        final = then.known.final if then else frozenset()
        folders = {partition_of(address) for address in self.there}
        listed = set(scope.find_listed(zip(folders, folders, strict=True), final))
        looked_at = {a for a in self.there if partition_of(a) in listed}
        live = self.live_ranges()
        fresh = live - then.ranges if then else live
        committed = live | {a for r in fresh for a in self.ranges[r]}
        self.index |= {name: self.ranges[name] for name in fresh}
        if then is not None and changes is not None:
            dead = {r for c in self.commits.keys() - self.live for r in self.commits[c]} - live
            assert then.ranges - live <= dead
            named = dead | {a for r in dead for a in self.ranges[r]}
            looked_at |= (named | then.carried) & self.there
            looked_up = scope.find_looked_up(listed, map(partition_of, named))
            for name in live - fresh:
                committed |= {a for a in self.index[name] if partition_of(a) in looked_up}
        survivors = looked_at - committed
        garbage = {a for a in survivors - self.staged if partition_of(a) in self.closed}
        assert garbage <= self.garbage(), "an optimized run takes what a clean one would not"
        self.there -= garbage
        if then is not None:
            self.optimized += 1
            self.taken += len(garbage)
            assert not self.garbage(), "a clean run after it finds something"
        final = frozenset(self.closed)
        self.checkpoint = Checkpoint(
            replace(KNOWN, final=final, live=frozenset(self.live)),
            live,
            {a for a in survivors - garbage if partition_of(a) in final},
        )
        return garbage


def partition_of(address: str) -> str:
    return address.partition("/")[0]


def lived(deeds: Iterator[Deed] | list[Deed]) -> Model:
    model = Model()
    for deed in deeds:
        model.do(deed)
        assert model.needed() <= model.there, f"{deed} lost something"
    return model


_seen = {"optimized": 0, "taken": 0}


@given(HISTORIES)
@settings(max_examples=150 * MORE)
def test_an_optimized_run_takes_what_a_clean_one_takes(deeds: list[Deed]) -> None:
    begin: list[Deed] = [("put", 0, 0), ("commit", 0, 0), ("clean", 0, 0)]
    end: list[Deed] = [
        ("put", 1, 0),
        ("reset", 0, 0),
        ("roll", 0, 0),
        ("roll", 1, 0),
        ("run", 0, 0),
    ]
    model = lived([*begin, *deeds, *end])
    _seen["optimized"] += model.optimized
    _seen["taken"] += model.taken


def test_the_runs_of_the_search_took_something() -> None:
    if not _seen["optimized"]:
        test_an_optimized_run_takes_what_a_clean_one_takes()
    assert _seen["optimized"] >= 100
    assert _seen["taken"] >= 100


TRAPS: dict[str, list[Deed]] = {
    "committed long ago, copied into staging, checkpointed, reset": [
        *(("put", 0, 0), ("commit", 0, 0), ("roll", 0, 0), ("clean", 0, 0)),
        *(("copy", 0, 0), ("clean", 0, 0), ("reset", 0, 0), ("run", 0, 0)),
    ],
    "committed in a partition that was open at the last run": [
        *(("put", 0, 0), ("commit", 0, 0), ("clean", 0, 0), ("roll", 0, 0), ("run", 0, 0)),
    ],
    "a dead commit shares an address with an old one": [
        *(("put", 0, 0), ("commit", 0, 0), ("copy", 0, 0), ("commit", 0, 0)),
        *(("roll", 0, 0), ("roll", 1, 0), ("clean", 0, 0), ("kill", 0, 1), ("run", 0, 0)),
    ],
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap(trap: str) -> None:
    model = lived(TRAPS[trap])
    assert model.optimized == 1
    assert len(model.live) >= 1


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ("there is no checkpoint", "there is no checkpoint"),
        (replace(KNOWN, format=FORMAT + 1), "has format 2"),
        (replace(KNOWN, store="elsewhere"), "is of another storage"),
        (replace(KNOWN, barriers=frozenset({"undo a"})), "a run was undone since"),
        (replace(KNOWN, barriers=frozenset({"undo b"})), "partitions were adopted since"),
        (replace(KNOWN, generation=scope.MOST_GENERATIONS), "the index is made anew"),
    ],
)
@pytest.mark.parametrize("asked", [Mode.AUTO, Mode.OPTIMIZED])
def test_a_checkpoint_that_does_not_count(asked: Mode, known: Known | str, why: str) -> None:
    barriers = {"undone": {"undo a", "undo b"}, "adopted": {"undo b", "adoption a"}}
    events = next((events for word, events in barriers.items() if word in why), set())
    choice = choose(asked, known, store="here", barriers=events)
    assert choice.mode == Mode.CLEAN
    assert why in choice.why


def test_a_checkpoint_that_counts() -> None:
    known = replace(KNOWN, barriers=frozenset({"undo a", "undo b"}))
    for asked in (Mode.AUTO, Mode.OPTIMIZED):
        assert choose(asked, known, store="here", barriers={"undo a"}).mode == Mode.OPTIMIZED
    assert choose(Mode.CLEAN, known, store="here", barriers=set()).mode == Mode.CLEAN


def test_parts_of_the_index_that_are_read() -> None:
    parts = [("a", "c"), ("c", "d"), ("f", "f"), ("a", "z")]
    assert scope.find_overlapping(parts, ["c"]) == [0, 1, 3]
    assert scope.find_overlapping(parts, ["e"]) == [3]
    assert scope.find_overlapping(parts, []) == []
    assert scope.find_overlapping(parts, ["0", "zz"]) == []


FOLDERS = [
    (f"r/branches/{branch}/{name}", name) for branch in "xy" for name in ("p1", "p2", "p3", "p4")
]


def test_of_few_branches_each_partition_is_listed() -> None:
    ranges = scope.find_ranges([*FOLDERS, ("r/runs/1/", "")], {"p2"})
    assert [folder for folder, after, until in ranges if not after and not until] == [
        *(folder for folder, name in FOLDERS if name != "p2"),
        "r/runs/1",
    ]


@pytest.mark.parametrize(
    "final", [set(), {"p1"}, {"p4"}, {"p2", "p3"}, {"p1", "p3"}, {"p1", "p2", "p3", "p4"}]
)
def test_of_many_branches_key_ranges_hold_what_is_listed(
    final: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "MANY_BRANCHES", 1)
    ranges = [KeyRange(*keys) for keys in scope.find_ranges(FOLDERS, final)]
    for folder, name in FOLDERS:
        for key in (f"{folder}/0", f"{folder}/ffff", f"{folder}/a b"):
            holding = [keys for keys in ranges if key.startswith(f"{keys.prefix}/") and key in keys]
            assert len(holding) == (name not in final), (key, holding)
    if not final:
        assert ranges == [KeyRange("r/branches/x"), KeyRange("r/branches/y")]
