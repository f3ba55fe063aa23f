"""A slow oracle that follows the rules ref by ref, and what holds for every decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.history import expire
from reclaim.model import History, Snapshot
from reclaim.policy import Duration, Match, Policy, Rules, evaluate
from reclaim.policy.rules import PERIODS
from tests.history.graphs import NAMES, histories
from tests.history.trees import START, ancestors, applied, branch, chain, parents_of, tree

NOW = START + timedelta(days=20)


def durations() -> st.SearchStrategy[Duration]:
    return st.sampled_from(["1h", "24h", "3d", "2w", "1m"]).map(Duration.parse)


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


def period(name: str, written: datetime) -> object:
    written = written.astimezone(UTC)
    day = written.date()
    return {
        "last": written,
        "hourly": (day, written.hour),
        "daily": day,
        "weekly": day.isocalendar()[:2],
        "monthly": (day.year, day.month),
        "yearly": day.year,
    }[name]


def oracle(policy: Policy, history: History) -> set[str]:
    """Each ref on its own, each rule on its own."""
    found: dict[str, Snapshot] = {one.id: one for one in history.snapshots}
    parents = parents_of(history)
    kept: set[str] = set()
    for ref in history.refs:
        rules = policy.rules(ref)
        reached = ancestors(parents, ref.snapshot)
        kept |= {one for one in reached if not parents[one]}
        if rules.empty:
            kept |= reached
        cutoffs = []
        if rules.older_than is not None:
            age = rules.older_than
            cutoffs.append(age if isinstance(age, datetime) else age.before(NOW))
        if rules.keep_within is not None:
            cutoffs.append(rules.keep_within.before(found[ref.snapshot].written_at))
        for cutoff in cutoffs:
            kept |= {one for one in reached if found[one].written_at >= cutoff}
        for name, count in rules.counts():
            newest: dict[object, str] = {}
            for one in chain(parents, ref.snapshot):
                newest.setdefault(period(name, found[one].written_at), one)
            kept |= set(list(newest.values())[:count])
    return kept


@given(policies(), histories(20))
@settings(max_examples=500, deadline=None)
def test_it_is_what_the_rules_say(policy: Policy, history: History) -> None:
    assert evaluate(policy, history, now=NOW).kept == oracle(policy, history)


@given(policies(), histories())
@settings(max_examples=300, deadline=None)
def test_reasons_agree_with_decisions(policy: Policy, history: History) -> None:
    decisions = evaluate(policy, history, now=NOW)
    for number, decision in enumerate(decisions):
        assert decision.kept == bool(list(decisions.reasons.keeping(number)))
        assert decision.reasons
        assert len(set(decision.reasons)) == len(decision.reasons)


@given(policies(), histories())
@settings(max_examples=300, deadline=None)
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
