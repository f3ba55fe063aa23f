"""Bugs in what is believed of a policy that is stored with a repository."""

from __future__ import annotations

from tests.planted.bug import Bug

STORED = "tests/policy/test_stored.py"
CLI = "tests/cli/test_policy.py"
DAMAGED = f"{STORED}::test_what_is_damaged_or_newer_is_never_no_policy"
STOPS = f"{CLI}::test_a_policy_that_cannot_be_read_stops_every_run"

BUGS: dict[str, Bug] = {
    "a stored policy whose text is another": Bug(
        "reclaim.policy.stored_text",
        right='        if body.get("sha256") != _hash(text):',
        wrong="        if False:",
        test=f"{DAMAGED}[another text]",
    ),
    "a stored policy of a newer version": Bug(
        "reclaim.policy.stored_text",
        right='        if body["format"] != self.version:',
        wrong="        if False:",
        test=f"{DAMAGED}[newer]",
    ),
    "a stored policy that cannot be read counts as none": Bug(
        "reclaim.run.plan.stored_policy",
        right="    return None if document is None else decode_stored(document, "
        "repository=store.name)",
        wrong="    try:\n        return document and decode_stored(document, "
        "repository=store.name)\n    except Exception:\n        return None",
        test=f"{STOPS}[damaged]",
    ),
    "a stored policy that has no rules": Bug(
        "reclaim.policy.stored",
        right="policy = require_rules(read_policy(",
        wrong="policy = (read_policy(",
        test=f"{STORED}::test_a_text_that_says_nothing_is_damaged[empty]",
    ),
}
