"""Files that pages show are files that the program reads, and pages name every setting."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from reclaim.cli.config.config_file import read_config
from reclaim.cli.config.settings import BY_KEY, SETTINGS, Setting
from reclaim.cli.views import exits
from reclaim.policy.lifecycle.parse import read_lifecycle
from reclaim.policy.parse import read_policy

DOCS = Path(__file__).parents[2] / "docs"


def shown(page: str, language: str) -> str:
    """The only block of a page in a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    return str(block)


def test_the_policy() -> None:
    assert len(read_policy(shown("reference/policy-files.md", "yaml")).matches) == 2


def test_the_lifecycle_rules() -> None:
    assert len(read_lifecycle(shown("explanation/lifecycle.md", "yaml")).rules) == 2


def test_the_settings(tmp_path: Path) -> None:
    text = shown("reference/settings.md", "toml")
    assert tomllib.loads(text)
    file = tmp_path / "reclaim.toml"
    file.write_text(text)
    config = read_config(file)
    assert config is not None
    assert {entry.key for entry in config.entries} <= BY_KEY.keys()


def test_the_permissions() -> None:
    policy = json.loads(shown("how-to/permissions.md", "json"))
    assert {statement["Effect"] for statement in policy["Statement"]} == {"Allow"}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_a_setting_is_documented(setting: Setting) -> None:
    page = (DOCS / "reference" / "settings.md").read_text()
    assert f"| `{setting.key}` |" in page
    assert f"`{setting.variable}`" in page


def test_every_exit_code_is_documented() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text()
    for code, kinds in exits.kinds().items():
        (row,) = re.findall(rf"^\| (?:\d+, )?{code}(?:, \d+)? \|.*$", page, re.M)
        assert all(f"`{kind}`" in row for kind in kinds)
