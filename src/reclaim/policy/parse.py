"""Parsing of policies: files in YAML or JSON, and command options.

A file has a ``default`` and a list of ``rules``, both optional::

    default:
      older_than: 30d          # or an instant: 2026-01-31T12:00:00Z; without offset it is UTC
      keep_last: 10
    rules:
      - match: "release/*"     # glob on the name of the ref; * also matches /
        kind: branch           # branch, tag or any (default: any)
        keep_daily: 7          # also keep_hourly, keep_weekly, keep_monthly, keep_yearly
        keep_within: 6mo       # counted back from the tip of the ref
        keep_merge_bases: true
      - match: "v*"
        kind: tag              # without rules: everything reached by these tags stays

The first entry matching a ref applies alone, without rules of the default or of later entries.
Unknown, duplicate and empty fields are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from reclaim.errors import InvalidInput
from reclaim.model import RefKind, instant_text
from reclaim.policy.document import problem_text, read_document
from reclaim.policy.duration import Duration
from reclaim.policy.rules import Match, Policy, Rules

NO_RULE_HINT = (
    "give at least one of older_than, keep_within, keep_last, keep_daily and the like, or store a "
    "policy with `reclaim policy set`"
)


def _duration(value: object) -> Duration:
    if isinstance(value, Duration):
        return value
    if not isinstance(value, str | timedelta):
        raise ValueError("must be a duration such as 30d, 12h or 1y6mo")
    try:
        return Duration.of(value) if isinstance(value, timedelta) else Duration.parse(value)
    except InvalidInput as error:
        raise ValueError(f"{error.message}; {error.hint}") from None


def _age(value: object) -> Duration | datetime:
    """Parse a duration or an instant. YAML has already converted some texts to dates."""
    try:
        if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-":
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)  # noqa: DTZ001
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{value!r} is not an instant such as 2026-01-31T12:00:00Z") from None
    if not isinstance(value, str | Duration | timedelta):
        raise ValueError("must be a duration such as 30d or an instant such as 2026-01-31")
    return _duration(value)


Age = Annotated[Duration | datetime | None, BeforeValidator(_age)]
Length = Annotated[Duration | None, BeforeValidator(_duration)]
Count = Annotated[int | None, Field(ge=1, strict=True)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    older_than: Age = None
    keep_within: Length = None
    keep_last: Count = None
    keep_hourly: Count = None
    keep_daily: Count = None
    keep_weekly: Count = None
    keep_monthly: Count = None
    keep_yearly: Count = None
    keep_merge_bases: Annotated[bool, Field(strict=True)] = False

    def rules(self) -> Rules:
        return Rules(**{name: getattr(self, name) for name in _Fields.model_fields})


class _Entry(_Fields):
    match: Annotated[str, Field(min_length=1, strict=True)]
    kind: Literal["branch", "tag", "any"] = "any"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    default: _Fields = _Fields()
    rules: list[_Entry] = []


def read_policy(text: str, *, source: str = "the policy") -> Policy:
    """Parse the text of a policy file, in YAML or JSON."""
    data = read_document(text, source=source)
    return parse_policy({} if data is None else data, source=source)


def parse_policy(data: object, *, source: str = "the policy") -> Policy:
    """Parse the content of a policy file."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{source} must have a default, rules or both, not {data!r}")
    try:
        parsed = _File.model_validate(data)
    except ValidationError as error:
        raise _invalid(error, source, lambda place: _where(place, data)) from None
    return Policy(
        parsed.default.rules(),
        tuple(
            (Match(entry.match, None if entry.kind == "any" else RefKind(entry.kind)), rules)
            for entry in parsed.rules
            for rules in [entry.rules()]
        ),
    )


def policy_document(policy: Policy) -> dict[str, Any]:
    """Return a policy as file content; ``parse_policy`` reads an equal policy from it."""
    document = {
        "default": _written(policy.default),
        "rules": [
            {"match": match.glob, "kind": str(match.kind or "any"), **_written(rules)}
            for match, rules in policy.matches
        ],
    }
    if parse_policy(document) != policy:
        raise InvalidInput("the policy has durations or times that cannot be written down")
    return document


def _written(rules: Rules) -> dict[str, Any]:
    given = {name: getattr(rules, name) for name in _Fields.model_fields}
    return {
        name: instant_text(value)
        if isinstance(value, datetime)
        else str(value)
        if isinstance(value, Duration)
        else value
        for name, value in given.items()
        if value is not None and value is not False
    }


def parse_rules(given: Mapping[str, object], *, named: Callable[[str], str] = str) -> Rules:
    """Parse rules from values by name; ``named`` formats the name of a rule in messages."""
    try:
        return _Fields.model_validate(given).rules()
    except ValidationError as error:
        raise _invalid(error, "", lambda place: named(str(place[0]))) from None


def from_options(**options: object) -> Policy:
    """Parse a policy for all refs from command options; None means not given."""
    given = {name: value for name, value in options.items() if value is not None}
    return Policy(parse_rules(given, named=_option))


def require_rules(policy: Policy) -> Policy:
    """Refuse a policy without any rule that could expire a snapshot."""
    if policy.empty:
        raise InvalidInput("the policy has no rule and would never expire anything",
                           hint=NO_RULE_HINT)  # fmt: skip
    return policy


def _invalid(error: ValidationError, source: str, where: Any) -> InvalidInput:
    problems = [
        f"{where(problem['loc'])}: {problem_text(problem)}"
        for problem in error.errors(include_url=False)
    ]
    prefix = f"{source}: " if source else ""
    return InvalidInput(prefix + "; ".join(problems), problems=problems)


def _option(rule: str) -> str:
    return "--" + rule.replace("_", "-")


def _where(place: tuple[int | str, ...], data: Mapping[object, Any]) -> str:
    """``rules[1] (feature/*): keep_daily``, from the location reported by pydantic."""
    if place[:1] != ("rules",) or len(place) < 2:
        return ": ".join(str(part) for part in place)
    number = place[1]
    entry = data["rules"][number]
    glob = entry.get("match") if isinstance(entry, Mapping) else None
    named = f"rules[{number}] ({glob})" if isinstance(glob, str) and glob else f"rules[{number}]"
    return ": ".join([named, *(str(part) for part in place[2:])])
