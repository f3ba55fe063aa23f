"""A slow oracle that follows the rules ref by ref, and what holds for every decision."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.history import expire
from reclaim.model import History, Ref, Snapshot
from reclaim.policy import Duration, Match, Policy, Rules, evaluate
from reclaim.policy.claims import WIDTH
from reclaim.policy.reasons import ORIGIN as ORIGIN_OF
from reclaim.policy.reasons import UNREACHED
from reclaim.policy.rules import PERIODS
from tests.history.graphs import NAMES, histories
from tests.history.trees import START, ancestors, applied, branch, chain, parents_of, tree
from tests.support.soak import MORE

pytestmark = pytest.mark.fast

ORIGIN = ORIGIN_OF.format(noun="commit")
NOW = START + timedelta(days=20)


def durations() -> st.SearchStrategy[Duration]:
    return st.sampled_from(["1h", "24h", "3d", "2w", "1mo"]).map(Duration.parse)


def rules() -> st.SearchStrategy[Rules]:
    """None, one or two rules: with more, nearly everything is kept by some."""
    instants = st.integers(0, 480).map(lambda hours: START + timedelta(hours=hours))
    one = st.one_of(
        st.tuples(st.just("older_than"), durations() | instants),
        st.tuples(st.just("keep_within"), durations()),
        st.tuples(
            st.sampled_from([f"keep_{name}" for name in ("last", *PERIODS)]), st.integers(1, 3)
        ),
    )
    return st.lists(one, max_size=2).map(lambda given: Rules(**dict(given)))  # type: ignore[arg-type]


def policies() -> st.SearchStrategy[Policy]:
    match = st.builds(Match, st.sampled_from([*NAMES, "v*", "[ab]"]))
    return st.builds(Policy, rules(), st.lists(st.tuples(match, rules()), max_size=3).map(tuple))


def period(name: str, snapshot: Snapshot) -> object:
    written = snapshot.written_at.astimezone(UTC)
    day = written.date()
    return {
        "last": snapshot.id,
        "hourly": (day, written.hour),
        "daily": day,
        "weekly": day.isocalendar()[:2],
        "monthly": (day.year, day.month),
        "yearly": day.year,
    }[name]


def keeping(policy: Policy, history: History) -> dict[str, dict[tuple[Rules, str], list[Ref]]]:
    """By snapshot and rule the refs that keep it, those first for which the rule goes furthest.

    Each ref on its own, each rule on its own; ``reach`` stands for all that a ref reaches.
    """
    found: dict[str, Snapshot] = {one.id: one for one in history.snapshots}
    parents = parents_of(history)
    claims: dict[str, dict[tuple[Rules, str], list[tuple[Any, int]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for index, ref in enumerate(history.refs):
        rules = policy.rules(ref)
        reached = ancestors(parents, ref.snapshot)
        for one in reached:
            written = found[one].written_at
            claims[one][rules, "reach"].append((0, index))
            if not parents[one]:
                claims[one][rules, "origin"].append((0, index))
            if rules.empty:
                claims[one][rules, "no rule"].append((0, index))
            if rules.older_than is not None:
                age = rules.older_than
                if written >= (age if isinstance(age, datetime) else age.before(NOW)):
                    claims[one][rules, "older_than"].append((0, index))
            if rules.keep_within is not None:
                cutoff = rules.keep_within.before(found[ref.snapshot].written_at)
                if written >= cutoff:
                    claims[one][rules, "keep_within"].append((cutoff, index))
        for name, count in rules.counts():
            line = chain(parents, ref.snapshot)
            # A period that comes again, because a clock ran backwards, counts again.
            periods = groupby(line, key=lambda one: period(name, found[one]))
            newest = [next(members) for _, members in periods]
            for place, one in enumerate(newest[:count], start=1):
                claims[one][rules, f"keep_{name}"].append((place, index))
    return {
        one: {rule: [history.refs[index] for _, index in sorted(refs)] for rule, refs in by.items()}
        for one, by in claims.items()
    }


def oracle(policy: Policy, history: History) -> set[str]:
    by_snapshot = keeping(policy, history)
    return {one for one, by in by_snapshot.items() if any(rule != "reach" for _, rule in by)}


def names(history: History, refs: list[Ref]) -> str:
    """The first three in the order of the history, and whether there are others."""
    listed = ", ".join(f"{ref.kind} {ref.name}" for ref in history.refs if ref in refs[:3])
    return listed + (" and others" if len(refs) > 3 else "")


def sentence_rule(sentence: str) -> tuple[str, str]:
    """The rule and the names of a sentence that says why a snapshot stays."""
    listed, _, why = sentence.partition(": ")
    rule = "no rule" if why.startswith("no rule") else why.split()[0]
    return rule, listed


@given(policies(), histories(20))
@settings(max_examples=250 * MORE, deadline=None)
def test_it_is_what_the_rules_say(policy: Policy, history: History) -> None:
    assert evaluate(policy, history, now=NOW).kept == oracle(policy, history)


@given(policies(), histories())
@settings(max_examples=150 * MORE, deadline=None)
def test_reasons_agree_with_decisions(policy: Policy, history: History) -> None:
    decisions = evaluate(policy, history, now=NOW)
    for number, decision in enumerate(decisions):
        assert decision.kept == bool(decisions.reasons.keeping(number, number + 1)[0])
        assert decision == decisions[decision.id]
        assert decision.reasons
        assert len(set(decision.reasons)) == len(decision.reasons)


@given(policies(), histories(20))
@settings(max_examples=150 * MORE, deadline=None)
def test_each_reason_names_the_refs_it_is_for(policy: Policy, history: History) -> None:
    by_snapshot = keeping(policy, history)
    for decision in evaluate(policy, history, now=NOW):
        claims = by_snapshot.get(decision.id, {})
        if decision.kept:
            wanted = [
                (rule, names(history, refs))
                for (_, rule), refs in claims.items()
                if rule not in ("reach", "origin")
            ]
            told = [sentence_rule(one) for one in decision.reasons if one != ORIGIN]
            assert sorted(told) == sorted(wanted)
            assert (ORIGIN in decision.reasons) == any(rule == "origin" for _, rule in claims)
        else:
            wanted_names = [names(history, refs) for (_, rule), refs in claims.items()]
            assert len(decision.reasons) == max(len(wanted_names), 1)
            for sentence in decision.reasons:
                assert sentence == UNREACHED or any(
                    sentence.startswith(f"{listed}: not kept by ")
                    or sentence.endswith(f" on {listed}")
                    for listed in wanted_names
                )


@pytest.mark.parametrize("refs", [10, 1000])
def test_a_class_costs_the_same_however_many_refs_it_has(refs: int) -> None:
    """Counted, not timed: the distinct lists of refs that are kept for a line of snapshots."""
    lines = "\n".join(f"s{n}: {f's{n - 1}' if n else ''}" for n in range(200))
    history = tree(lines, *(branch(f"b{n:04}", f"s{n * 7 % 200}") for n in range(refs)))
    policy = Policy(Rules(keep_last=100, keep_within=Duration.parse("90d")))
    (claims,) = evaluate(policy, history, now=NOW).reasons.classes
    for rule in (claims.reached, *claims.tip_rules()):
        assert max(len(ranks) for ranks in rule.ranks) <= WIDTH


@given(policies(), histories())
@settings(max_examples=150 * MORE, deadline=None)
def test_deciding_again_after_the_edit_changes_nothing(policy: Policy, history: History) -> None:
    kept = evaluate(policy, history, now=NOW).kept
    edit = expire(history, kept)
    after = applied(history, edit)
    again = evaluate(policy, after, now=NOW).kept
    assert again == kept
    assert expire(after, again).empty


def test_kept_bases_carry_their_reason() -> None:
    history = tree("o:\n base: o\n m: base\n f: base", branch("main", "m"), branch("f", "f"))
    policy = Policy(Rules(keep_last=1), ((Match("f"), Rules(keep_last=1, keep_merge_bases=True)),))
    decisions = evaluate(policy, history, now=NOW)
    assert [ref.name for ref in decisions.keep_bases_of] == ["f"]
    edit = expire(history, decisions.kept, keep_bases_of=decisions.keep_bases_of)
    base = history.snapshots[2].id
    assert not decisions[base].kept
    decisions = decisions.with_bases(edit.kept_bases)
    assert decisions[base].kept
    assert decisions[base].reasons == (
        "branch f: keep_merge_bases, the merge base with the default branch",
    )
    assert len(decisions) == 4
