"""Policies that are stored: read back as they were, or not at all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from reclaim.errors import Corrupt, InvalidInput, ReclaimError, UnknownVersion
from reclaim.model import Ref, RefKind, SnapshotId
from reclaim.policy import (
    Duration,
    Match,
    Policy,
    Rules,
    StoredPolicy,
    decode_stored,
    encode_stored,
    read_policy,
    unmatched_rules,
)
from reclaim.policy.stored import text_of
from reclaim.policy.words import rules_in_words

pytestmark = pytest.mark.fast

NOW = datetime(2026, 11, 17, 12, 30, 15, 250, UTC)
TEXT = "# ours\ndefault:\n  keep_last: 3 # für alle\nrules:\n- match: v*\n  kind: tag\n"
STORED = StoredPolicy(read_policy(TEXT), TEXT, NOW, "ines")


def encoded(**changes: Any) -> str:
    return json.dumps(json.loads(encode_stored(STORED)) | changes)


def test_it_comes_back_with_its_comments() -> None:
    assert decode_stored(encode_stored(STORED), repository="sales") == STORED


def test_rules_from_options_have_a_text() -> None:
    older, instant = Duration.parse("1y6mo"), datetime(2026, 1, 1, tzinfo=UTC)
    for policy in (
        Policy(Rules(older_than=older, keep_last=2, keep_merge_bases=True)),
        Policy(Rules(older_than=instant), ((Match("a*", RefKind.TAG), Rules(keep_daily=1)),)),
    ):
        assert read_policy(text_of(policy)) == policy


DAMAGED: dict[str, tuple[str, type[ReclaimError]]] = {
    "empty": ("", Corrupt),
    "cut off": ("{", Corrupt),
    "a list": ("[]", Corrupt),
    "nothing in it": ("{}", Corrupt),
    "null": ("null", Corrupt),
    "a version as text": (encoded(format="1"), Corrupt),
    "newer": (encoded(format=2), UnknownVersion),
    "older": (encoded(format=0), UnknownVersion),
    "another text": (encoded(policy=TEXT.replace("3", "1")), Corrupt),
    "no text": (encoded(policy=""), Corrupt),
    "null as text": (encoded(policy=None), Corrupt),
    "no checksum": (encoded(sha256=""), Corrupt),
    "no time": (encoded(set_at="soon"), Corrupt),
    "no name": (encoded(set_by=7), Corrupt),
}


@pytest.mark.parametrize(("document", "error"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_or_newer_is_never_no_policy(
    document: str, error: type[ReclaimError]
) -> None:
    with pytest.raises(error, match="stored with sales") as raised:
        decode_stored(document, repository="sales")
    assert "reclaim policy set" in (raised.value.hint or "")


@pytest.mark.parametrize(
    "text", ["{}", "default: {}", "default:\n  keep_lsat: 3\n"], ids=["{}", "empty", "mistyped"]
)
def test_a_text_that_says_nothing_is_damaged(text: str) -> None:
    from reclaim.policy.stored_text import _hash

    with pytest.raises(Corrupt):
        decode_stored(encoded(policy=text, sha256=_hash(text)), repository="sales")


def test_a_policy_without_rules_is_not_stored() -> None:
    with pytest.raises(InvalidInput):
        encode_stored(StoredPolicy(Policy(), "{}", NOW, ""))
    with pytest.raises(InvalidInput):
        encode_stored(StoredPolicy(Policy(Rules(keep_last=2)), TEXT, NOW, ""))


def test_rules_that_match_no_ref() -> None:
    tip = SnapshotId("1")
    refs = [Ref("main", RefKind.BRANCH, tip), Ref("v1", RefKind.TAG, tip)]
    rules = Rules(keep_last=1)
    mian, tags = Match("mian"), Match("v*", RefKind.TAG)
    branches, second = Match("v*", RefKind.BRANCH), Match("*")
    policy = Policy(rules, tuple((match, rules) for match in (mian, tags, branches, second, tags)))
    assert unmatched_rules(policy, refs) == (mian, branches)
    assert unmatched_rules(policy, ()) == (mian, tags, branches, second, tags)


def test_every_rule_has_words_and_stands_alone() -> None:
    rules = Rules(
        older_than=Duration.parse("30d"),
        keep_within=Duration.parse("1w"),
        keep_last=1,
        keep_hourly=2,
        keep_daily=3,
        keep_weekly=4,
        keep_monthly=5,
        keep_yearly=6,
        keep_merge_bases=True,
    )
    words = list(rules_in_words(rules, now=NOW, noun="commit"))
    assert words[0][0] == (
        "keep every commit written at or after 2026-10-18T12:30:15Z (younger than 30d)"
    )
    assert words[2][0] == "keep the last commit"
    assert words[4][0] == "keep the newest commit in each of the last 3 days that have one"
    assert len({sentence for sentence, _ in words}) == len(words) == 9
    for (_, alone), name in zip(words, Rules.__dataclass_fields__, strict=True):
        assert alone == Rules(**{name: getattr(rules, name)})


def test_a_stored_text_with_a_bare_m_says_what_to_write() -> None:
    from reclaim.policy.stored_text import _hash

    text = "default:\n  keep_within: 6m\n"
    document = encoded(policy=text, sha256=_hash(text))
    with pytest.raises(Corrupt, match=r"cannot be read: .*6mo for months or 6min") as refused:
        decode_stored(document, repository="sales")
    assert "reclaim policy set" in str(refused.value.hint)
