"""A policy as people read it."""

from __future__ import annotations

import pytest

from reclaim.policy import parse_policy, policy_lines

pytestmark = pytest.mark.fast


def test_every_rule_is_named() -> None:
    document = {
        "rules": [
            {"match": "release/*", "kind": "tag"},
            {"match": "main", "keep_last": 3, "keep_merge_bases": True},
            {"match": "kept", "keep_merge_bases": True},
        ],
        "default": {"older_than": "7d", "keep_daily": 2, "keep_merge_bases": True},
    }
    assert list(policy_lines(parse_policy(document, source="test"))) == [
        "tag release/*: everything stays",
        "main: keep_last 3, keep_merge_bases",
        "kept: everything stays",
        "default: older_than 7d, keep_daily 2, keep_merge_bases",
    ]
