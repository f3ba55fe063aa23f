"""Bugs in settings: what files and variables may say of what is deleted."""

from __future__ import annotations

from tests.planted.bug import Bug

STRANGERS = "tests/cli/test_settings.py::test_others_cannot_say_what_is_deleted"
OTHERS_STORES = (
    "tests/terminus/test_cli.py::test_a_setting_does_not_weaken_a_store_that_others_write"
)

BUGS: dict[str, Bug] = {
    "strangers say which catalog": Bug(
        "reclaim.cli.config.settings",
        right="""        DEFAULT_CATALOG,
        guarded=True,
""",
        wrong="""        DEFAULT_CATALOG,
""",
        test="tests/cli/test_settings.py"
        "::test_others_cannot_say_what_is_deleted[catalog = 'elsewhere']",
    ),
    "the margin is taken from a file of others": Bug(
        "reclaim.cli.config.settings",
        right='        "24h",\n        guarded=True,\n',
        wrong='        "24h",\n',
        test=f"{STRANGERS}[min_age = '0s']",
    ),
    "that nothing is put in quarantine is taken from a file of others": Bug(
        "reclaim.cli.config.settings",
        right='default: depends on the store",\n        guarded=True,\n',
        wrong='default: depends on the store",\n',
        test=f"{STRANGERS}[quarantine = false]",
    ),
    "the time in quarantine is taken from a file of others": Bug(
        "reclaim.cli.config.settings",
        right='        "7d",\n        guarded=True,\n',
        wrong='        "7d",\n',
        test=f"{STRANGERS}[keep = '1s']",
    ),
    "a setting shortens the margin of a store that others write": Bug(
        "reclaim.cli.options.plan_options",
        right="min_age if by_option else _safe_age(min_age, store),",
        wrong="min_age,",
        test=OTHERS_STORES,
    ),
    "a setting ends the quarantine of a store that others write": Bug(
        "reclaim.cli.options.quarantining",
        right="        if store.quarantine_by_default and current()",
        wrong="        if False and current()",
        test=OTHERS_STORES,
    ),
}
