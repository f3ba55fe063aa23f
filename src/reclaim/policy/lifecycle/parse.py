"""Parsing of lifecycle rules in JSON or YAML, by rule id.

::

    rule1:
      prefix: foo/bar      # of the path; empty matches everything
      days: 10             # for every branch without days of its own below
      enabled: true        # default: true
      branch_days:
        b1: 5
        b2: 2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from reclaim.errors import InvalidInput
from reclaim.policy.document import problem_text, read_document
from reclaim.policy.lifecycle.rules import LifecyclePolicy, LifecycleRule

MOST_DAYS = 36_500
"""A hundred years. Larger numbers are mistakes."""

Days = Annotated[int, Field(ge=1, le=MOST_DAYS, strict=True)]


def _check_letters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("contains a lone surrogate, which no path can contain") from None
    return text


Text = Annotated[str, Field(strict=True), AfterValidator(_check_letters)]
Name = Annotated[Text, Field(min_length=1)]


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prefix: Text
    days: Days | None = None
    enabled: Annotated[bool, Field(strict=True)] = True
    branch_days: dict[Name, Days] = {}

    @model_validator(mode="after")
    def _says_something(self) -> _Rule:
        if self.days is None and not self.branch_days:
            raise ValueError("needs days or branch_days")
        return self


def read_lifecycle(text: str, *, source: str = "the lifecycle rules") -> LifecyclePolicy:
    """Parse the text of a file with lifecycle rules."""
    data = read_document(text, source=source)
    if not isinstance(data, Mapping) or not data:
        raise InvalidInput(
            f"{source} must be a mapping of rule ids to rules, not {data!r}",
            hint='for example {"rule1": {"prefix": "logs/", "days": 30}}',
        )
    rules: list[LifecycleRule] = []
    problems: list[str] = []
    for rule_id, body in data.items():
        if not isinstance(rule_id, str) or not rule_id:
            problems.append(f"the id of a rule must be a text, not {rule_id!r}")
            continue
        if not isinstance(body, Mapping):
            problems.append(f"{rule_id}: a rule has fields such as prefix and days, not {body!r}")
            continue
        try:
            parsed = _Rule.model_validate(body)
        except ValidationError as error:
            problems += [
                ": ".join([rule_id, *map(str, problem["loc"]), problem_text(problem)])
                for problem in error.errors(include_url=False)
            ]
            continue
        rules.append(LifecycleRule(rule_id, **parsed.model_dump()))
    if problems:
        raise InvalidInput(f"{source}: {'; '.join(problems)}", problems=problems)
    return LifecyclePolicy(tuple(rules))


def lifecycle_document(policy: LifecyclePolicy) -> dict[str, Any]:
    """Return the rules as the content of a file."""
    return {
        rule.id: {
            "prefix": rule.prefix,
            **({"days": rule.days} if rule.days is not None else {}),
            "enabled": rule.enabled,
            **({"branch_days": dict(rule.branch_days)} if rule.branch_days else {}),
        }
        for rule in policy.rules
    }
