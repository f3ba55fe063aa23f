"""What an incremental run has to look at, held to a plain model of objects, ranges and commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.run.record.checkpoints import MAX_GENERATIONS, Kind, Known, Mode, choose
from reclaim.run.uncommitted import scope
from reclaim.storage import KeyRange
from tests.support.soak import MORE

Deed = tuple[str, int, int]
KINDS = (
    *("put", "put", "commit", "commit", "copy", "drop", "reset", "kill", "revive", "roll"),
    *("full", "run", "run", "rules"),
)
HISTORIES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 99), st.integers(0, 99)), max_size=60
)
KNOWN = Known("r", "here", frozenset(), 0, frozenset(Kind))


@dataclass
class Section:
    """What a run leaves for the next one of its kind in the model."""

    generation: int
    ranges: frozenset[str]
    """The live ones."""
    live: frozenset[str] = frozenset()
    final: frozenset[str] = frozenset()
    carried: set[str] = field(default_factory=set)


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
    checkpoint: Section | None = None
    rules: Section | None = None
    """What a run of lifecycle rules has left."""
    index: list[frozenset[str]] = field(default_factory=list)
    """The ranges that each run has read."""
    number: int = 2
    incremental: int = 0
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
            case "full":
                self.run(full=True)
            case "run":
                self.run()
            case "rules":
                live = self.live_ranges()
                self.read(live - self.known_to(self.rules))
                self.rules = Section(len(self.index), live)

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
        """What a full run takes."""
        return {a for a in self.there - self.needed() if partition_of(a) in self.closed}

    def known_to(self, section: Section | None) -> frozenset[str]:
        """The ranges that a run need not read: those of then, and what was read since."""
        since = self.index[section.generation :] if section else self.index
        return (section.ranges if section else frozenset()).union(*since)

    def read(self, fresh: frozenset[str]) -> None:
        self.index.append(fresh)

    def run(self, *, full: bool = False) -> set[str]:
        if full:
            self.checkpoint, self.rules, self.index = None, None, []
        then = self.checkpoint
        changes = then and scope.find_changes(then.live, live=self.live, existing=set(self.commits))
        final = then.final if then else frozenset()
        folders = {partition_of(address) for address in self.there}
        listed = set(scope.find_listed(zip(folders, folders, strict=True), final))
        looked_at = {a for a in self.there if partition_of(a) in listed}
        live = self.live_ranges()
        fresh = live - self.known_to(then)
        before, since = self.index[: then.generation] if then else [], self.index
        since = since[len(before) :]
        committed = live | {a for r in live & fresh.union(*since) for a in self.ranges[r]}
        self.read(fresh)
        if then is not None and changes is not None:
            dead = {r for c in self.commits.keys() - self.live for r in self.commits[c]} - live
            assert then.ranges - live <= dead
            named = dead | {a for r in dead for a in self.ranges[r]}
            looked_at |= (named | then.carried) & self.there
            looked_up = scope.find_looked_up(listed, map(partition_of, named))
            for name in live & frozenset().union(*before):
                committed |= {a for a in self.ranges[name] if partition_of(a) in looked_up}
        survivors = looked_at - committed
        garbage = {a for a in survivors - self.staged if partition_of(a) in self.closed}
        assert garbage <= self.garbage(), "an incremental run takes what a full one would not"
        self.there -= garbage
        if then is not None:
            self.incremental += 1
            self.taken += len(garbage)
            assert not self.garbage(), "a full run after it finds something"
        final = frozenset(self.closed)
        self.checkpoint = Section(
            len(self.index),
            live,
            frozenset(self.live),
            final,
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


_seen = {"incremental": 0, "taken": 0}


@given(HISTORIES)
@settings(max_examples=150 * MORE)
def test_an_incremental_run_takes_what_a_full_one_takes(deeds: list[Deed]) -> None:
    begin: list[Deed] = [("put", 0, 0), ("commit", 0, 0), ("full", 0, 0)]
    end: list[Deed] = [
        ("put", 1, 0),
        ("reset", 0, 0),
        ("roll", 0, 0),
        ("roll", 1, 0),
        ("run", 0, 0),
    ]
    model = lived([*begin, *deeds, *end])
    _seen["incremental"] += model.incremental
    _seen["taken"] += model.taken


def test_the_runs_of_the_search_took_something() -> None:
    if not _seen["incremental"]:
        test_an_incremental_run_takes_what_a_full_one_takes()
    assert _seen["incremental"] >= 100
    assert _seen["taken"] >= 100


TRAPS: dict[str, list[Deed]] = {
    "committed long ago, copied into staging, checkpointed, reset": [
        *(("put", 0, 0), ("commit", 0, 0), ("roll", 0, 0), ("full", 0, 0)),
        *(("copy", 0, 0), ("full", 0, 0), ("reset", 0, 0), ("run", 0, 0)),
    ],
    "committed in a partition that was open at the last run": [
        *(("put", 0, 0), ("commit", 0, 0), ("full", 0, 0), ("roll", 0, 0), ("run", 0, 0)),
    ],
    "committed in a range that a run of rules has read": [
        *(("put", 0, 0), ("commit", 0, 0), ("put", 0, 0), ("roll", 0, 0), ("full", 0, 0)),
        *(("commit", 1, 0), ("rules", 0, 0), ("run", 0, 0)),
    ],
    "a range that was dead at the last run, and that the index has, is live again": [
        *(("put", 0, 0), ("commit", 1, 0), ("roll", 0, 0), ("rules", 0, 0), ("copy", 0, 0)),
        *(("kill", 0, 0), ("run", 0, 0), ("revive", 0, 0), ("reset", 0, 0), ("run", 0, 0)),
    ],
    "a dead commit shares an address with an old one": [
        *(("put", 0, 0), ("commit", 0, 0), ("copy", 0, 0), ("commit", 0, 0)),
        *(("roll", 0, 0), ("roll", 1, 0), ("full", 0, 0), ("kill", 0, 1), ("run", 0, 0)),
    ],
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap(trap: str) -> None:
    model = lived(TRAPS[trap])
    assert model.incremental == 1
    assert len(model.live) >= 1


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ("there is no checkpoint", "there is no checkpoint"),
        (replace(KNOWN, store="elsewhere"), "is of another storage"),
        (replace(KNOWN, barriers=frozenset({"undo a"})), "a run was undone since"),
        (replace(KNOWN, barriers=frozenset({"undo b"})), "partitions were adopted since"),
        (replace(KNOWN, generation=MAX_GENERATIONS), "which is made anew"),
    ],
)
@pytest.mark.parametrize("kind", Kind)
def test_a_checkpoint_that_does_not_count(kind: Kind, known: Known | str, why: str) -> None:
    barriers = {"undone": {"undo a", "undo b"}, "adopted": {"undo b", "adoption a"}}
    events = next((events for word, events in barriers.items() if word in why), set())
    choice = choose(kind, known, full=False, store="here", barriers=events)
    assert (choice.mode, choice.index) == (Mode.FULL, False)
    assert why in choice.why


@pytest.mark.parametrize("kind", Kind)
def test_a_checkpoint_that_counts(kind: Kind) -> None:
    known = replace(KNOWN, barriers=frozenset({"undo a", "undo b"}))
    choice = choose(kind, known, full=False, store="here", barriers={"undo a"})
    assert (choice.mode, choice.index) == (Mode.INCREMENTAL, True)
    choice = choose(kind, known, full=True, store="here", barriers=set())
    assert (choice.mode, choice.index, choice.why) == (Mode.FULL, False, "it was asked for")


@pytest.mark.parametrize("kind", Kind)
def test_a_checkpoint_of_the_other_kind_has_an_index(kind: Kind) -> None:
    known = replace(KNOWN, kinds=frozenset(Kind) - {kind})
    choice = choose(kind, known, full=False, store="here", barriers=set())
    assert (choice.mode, choice.index) == (Mode.FULL, True)
    assert f"has nothing of {kind}" in choice.why


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
