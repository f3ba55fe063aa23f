"""``reclaim policy``: the stored retention policy of a repository."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from reclaim.cli.command import command, group
from reclaim.cli.options.rules import KeepOptions, read_policy_file
from reclaim.cli.options.store_names import STORE
from reclaim.cli.session import Session, login_name
from reclaim.cli.views.describe import instant
from reclaim.cli.views.documents import RulesRemoved
from reclaim.cli.views.output import Block, Done
from reclaim.cli.views.policy_view import Explanation, policy_words, unmatched_in
from reclaim.cli.views.snapshot_rows import AllOption, ReasonsOption
from reclaim.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from reclaim.policy import Policy, StoredPolicy
    from reclaim.run.plan.decide import Predict
    from reclaim.stores.base import Store

StoreArgument = Annotated[str, typer.Argument(metavar="REPO", help=STORE, show_default=False)]
FileOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="A file in YAML or JSON instead of the stored policy; - for standard input.",
        show_default=False,
    ),
]


class PolicyDocument(TypedDict):
    """The stored policy."""

    repository: str
    policy: Mapping[str, Any]
    """The policy, as in a file."""
    text: str
    """Original text."""
    set_at: datetime
    set_by: str
    warnings: Sequence[str]


class PolicyChecked(TypedDict):
    """A valid policy."""

    valid: bool
    repository: str | None
    policy: Mapping[str, Any]
    """The policy, as in a file."""
    warnings: Sequence[str]


def register(app: typer.Typer) -> None:
    policy = group(app, "policy", "Store and explain the retention policy of a repository.")
    command(policy, "set", set_)
    command(policy, "get", get)
    command(policy, "unset", unset)
    command(policy, "validate", validate)
    command(policy, "explain", explain)


def set_(
    session: Session,
    repository: StoreArgument,
    rules: KeepOptions,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Rules by ref, in YAML or JSON; - for standard input.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Store a policy. plan and gc use it if no rules are given."""
    from reclaim.run.plan.stored_policy import store_policy

    policy_text = rules.policy_with(file)
    if policy_text is None:
        raise InvalidInput(
            "no rules are given", hint="name a file with the policy, or give rules such as "
            "--keep-last 10",
        )  # fmt: skip
    text, policy = policy_text
    with session.stores(repository) as [store]:
        stored = store_policy(store, text, policy, set_by=login_name())
        notes = unmatched_in(policy, store)
    session.output.answer(PolicyAnswer(store.name, stored, notes, stored_now=True))


def get(session: Session, repository: StoreArgument) -> None:
    """Print the stored policy in its original text."""
    with session.stores(repository) as [store]:
        stored = find_or_fail(store)
    session.output.answer(PolicyAnswer(store.name, stored))


def unset(session: Session, repository: StoreArgument) -> None:
    """Remove the stored policy, even if it cannot be read."""
    with session.stores(repository) as [store]:
        if not _is_there(store):
            raise _nothing_stored(store)
        store.store_policy(None)
    sentence = f"Removed the policy of {store.name}. Without rules nothing expires."
    session.output.answer(Done(sentence, RulesRemoved(repository=store.name, removed=True)))


def validate(
    session: Session,
    repository: Annotated[
        str | None,
        typer.Argument(metavar="REPO", help=f"{STORE} Needed unless a file is given."),
    ] = None,
    file: FileOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if a rule matches no branch or tag.")
    ] = False,
) -> None:
    """Validate a policy.

    With REPO, also check its rules against the refs there.
    """
    from reclaim.policy import require_rules
    from reclaim.run.plan.stored_policy import check_rules

    policy = None if file is None else require_rules(read_policy_file(file)[1])
    if repository is None:
        if policy is None:
            raise InvalidInput("give a REPO, a file with --policy, or both")
        if strict:
            raise InvalidInput("--strict needs a REPO to match its refs")
        session.output.answer(Checked(policy, None))
        return
    with session.stores(repository) as [store]:
        checked = find_or_fail(store).policy if policy is None else policy
        check_rules(store, checked)
        notes = unmatched_in(checked, store)
    if strict and notes:
        raise InvalidInput(
            "; ".join(notes),
            hint="correct the name, or leave out --strict if matching refs are created later",
            unmatched=list(notes),
        )
    session.output.answer(Checked(checked, store.name, notes))


def explain(
    session: Session,
    repository: StoreArgument,
    ref: Annotated[
        str | None,
        typer.Argument(metavar="REF", help="A branch or tag. Default: all of them."),
    ] = None,
    file: FileOption = None,
    everything: AllOption = False,
    reasons: ReasonsOption = False,
) -> None:
    """Show the rules of each ref, and the commits they keep.

    Changes nothing.
    """
    from reclaim.errors import Refused
    from reclaim.run.plan.policy_explained import explain_policy
    from reclaim.stores.abilities import ShowsHistory

    given_policy = None if file is None else read_policy_file(file)[1]
    with session.stores(repository) as [store]:
        if not isinstance(store, ShowsHistory):
            raise Refused(f"{store.kind} stores have no history to expire")
        stored = find_or_fail(store) if given_policy is None else None
        policy = given_policy if stored is None else stored.policy
        assert policy is not None
        history = store.current_history()
        explained = explain_policy(
            policy,
            history,
            now=store.clock.now(),
            noun=store.noun,
            ref=ref,
            predict=_predict(store, policy),
        )
    session.output.answer(
        Explanation(
            store.name, store.noun, stored, explained, history.refs, ref, everything, reasons
        )
    )


def _predict(store: Store, policy: Policy) -> Predict | None:
    """Predict the edit by the store's own library, if plans use it."""
    from reclaim.errors import Refused
    from reclaim.run.expire.library_edit import find_library_edit, predicting
    from reclaim.stores.abilities import Expiration

    try:
        edit = find_library_edit(
            store, policy, delete_expired_tags=False, delete_expired_branches=False
        )
    except Refused:
        # Nobody can edit the history by these rules; what they keep can be explained.
        return None
    if edit is None:
        return None
    return predicting(store, Expiration(policy, store.clock.now()))


def find_or_fail(store: Store) -> StoredPolicy:
    """Return the stored policy of a store, or raise an error."""
    from reclaim.run.plan.stored_policy import find_stored

    stored = find_stored(store)
    if stored is None:
        raise _nothing_stored(store)
    return stored


def _is_there(store: Store) -> bool:
    from reclaim.errors import Corrupt

    try:
        return store.stored_policy() is not None
    except Corrupt:
        return True


def _nothing_stored(store: Store) -> NotFound:
    return NotFound(
        f"no policy is stored with {store.name}",
        hint="store one with `reclaim policy set`; without rules nothing expires",
    )


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """Answer that shows the stored policy, or confirms a new policy."""

    repository: str
    stored: StoredPolicy
    notes: tuple[str, ...] = ()
    stored_now: bool = False

    def document(self) -> PolicyDocument:
        from reclaim.policy import policy_document

        return {
            "repository": self.repository,
            "policy": policy_document(self.stored.policy),
            "text": self.stored.text,
            "set_at": self.stored.set_at,
            "set_by": self.stored.set_by,
            "warnings": list(self.notes),
        }

    def view(self) -> Iterator[Block]:
        if not self.stored_now:
            # As it was written, so that it can be edited and set again.
            yield self.stored.text.removesuffix("\n")
            return
        yield f"Stored the policy of {self.repository} at {instant(self.stored.set_at)} UTC:"
        yield from policy_words(self.stored.policy)
        for note in self.notes:
            yield f"Note: {note}."
        yield f"To see the kept commits: reclaim policy explain {self.repository}"


@dataclass(frozen=True, slots=True)
class Checked:
    """Answer for a valid policy."""

    policy: Policy
    repository: str | None
    notes: tuple[str, ...] = ()

    def document(self) -> PolicyChecked:
        from reclaim.policy import policy_document

        return {
            "valid": True,
            "repository": self.repository,
            "policy": policy_document(self.policy),
            "warnings": list(self.notes),
        }

    def view(self) -> Iterator[Block]:
        where = f" for {self.repository}" if self.repository else ""
        yield f"The policy is valid{where}:"
        yield from policy_words(self.policy)
        for note in self.notes:
            yield f"Note: {note}."
