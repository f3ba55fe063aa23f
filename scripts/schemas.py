"""Write docs/schemas: a JSON Schema for the answer of each command, made of its types."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, is_typeddict

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from reclaim.cli import version
from reclaim.cli.commands import (
    clean,
    commit,
    config,
    cp,
    demo,
    diff,
    doctor,
    gc,
    get,
    help,
    init,
    lease,
    lifecycle,
    lock,
    log,
    ls,
    merge,
    mv,
    policy,
    purge,
    put,
    reap,
    repo,
    reset,
    rm,
    runs,
    show,
    undo,
)
from reclaim.cli.views import plan_export, plan_view, policy_view
from reclaim.cli.views.documents import (
    INSTANT_PATTERN,
    ApplyDocument,
    CommitDocument,
    EntryDocument,
    FailureDocument,
    RefCreated,
    RefDeleted,
    RefsDocument,
    RepositoryDocument,
    RulesRemoved,
)
from reclaim.demo import Report
from reclaim.run.plan.plan_document import PlanDocument

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Kind = type | tuple[type, ...]
"""The type of a document; or several types, whose fields it has all."""

PLAN = (PlanDocument, plan_view.PlanFound)


ANSWERS: Mapping[str, tuple[Kind, ...]] = {
    "apply": (ApplyDocument,),
    "branch-create": (RefCreated,),
    "branch-delete": (RefDeleted,),
    "branch-list": (RefsDocument,),
    "clean": (clean.CleanedDocument,),
    "commit": (commit.CommitMade,),
    "config-show": (config.SettingsDocument,),
    "cp": (EntryDocument, cp.CopiedDocument),
    "demo": ((Report, demo.DemoFacts),),
    "diff": (diff.DiffDocument,),
    "doctor": (doctor.DoctorDocument, doctor.PartitionsAdopted, doctor.UploadsAborted),
    "error": (FailureDocument,),
    "gc": (gc.CollectedDocument,),
    "get": (get.GotObject, get.GotFolder),
    "help": (help.HelpDocument,),
    "init": (init.InitDocument,),
    "lease-hold": (lease.LeaseDocument,),
    "lease-list": (lease.LeasesDocument,),
    "lease-release": (lease.LeasesReleased,),
    "lifecycle-get": (lifecycle.LifecycleRulesDocument,),
    "lifecycle-history": (lifecycle.LifecycleRunsDocument,),
    "lifecycle-set": (lifecycle.LifecycleRulesDocument,),
    "lifecycle-unset": (RulesRemoved,),
    "lock-release": (lock.LockReleased,),
    "log": (log.CommitsDocument,),
    "ls": (ls.ListingDocument, RefsDocument, repo.RepositoriesDocument),
    "merge": (merge.MergeDocument,),
    "mv": (EntryDocument, mv.MovedDocument),
    "plan": (PLAN,),
    "policy-explain": (policy_view.ExplanationDocument,),
    "policy-get": (policy.PolicyDocument,),
    "policy-set": (policy.PolicyDocument,),
    "policy-unset": (RulesRemoved,),
    "policy-validate": (policy.PolicyChecked,),
    "purge": (purge.PurgeDocument,),
    "put": (EntryDocument, put.PutFolder),
    "reap": (reap.ReapDocument,),
    "repo-create": (RepositoryDocument,),
    "repo-delete": (repo.RepositoryDeleted,),
    "repo-list": (repo.RepositoriesDocument,),
    "repo-set": (repo.RepositoryShown,),
    "repo-show": (repo.RepositoryShown,),
    "reset": (reset.ResetDocument,),
    "revert": (CommitDocument,),
    "rm": (rm.DeletedDocument,),
    "runs": (runs.RunsDocument,),
    "show": ((*PLAN, show.PlanLists), plan_export.PlanExported),
    "stage": (EntryDocument,),
    "tag-create": (RefCreated,),
    "tag-delete": (RefDeleted,),
    "tag-list": (RefsDocument,),
    "undo": (undo.UndoDocument,),
    "version": (version.VersionDocument,),
}
"""The kinds of answers of each command; one that is not among them is a mistake."""

TITLES = {
    "error": "The answer of a command that failed",
    "version": "reclaim --version",
}


class _Generator(GenerateJsonSchema):
    """Closed objects with the docstrings of their fields, and without titles and defaults."""

    def field_title_should_be_set(self, _schema: Any) -> bool:
        return False

    def datetime_schema(self, _schema: Any) -> dict[str, Any]:
        return {"type": "string", "format": "date-time", "pattern": INSTANT_PATTERN}

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Every field is written, but for those of a TypedDict that say otherwise."""
        return bool(field.get("required", total)) if field["type"] == "typed-dict-field" else True

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        return _closed(super().typed_dict_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        return _closed(super().dataclass_schema(schema), schema["cls"])

    def model_schema(self, schema: Any) -> dict[str, Any]:
        return _closed(super().model_schema(schema), schema["cls"])


def _closed(schema: dict[str, Any], cls: type) -> dict[str, Any]:
    """The schema of a class with the descriptions of its fields, and no field beside them."""
    schema.pop("title", None)
    if "description" in schema:
        schema["description"] = _plain(schema["description"])
    properties = schema.get("properties", {})
    for name, doc in _field_docs(cls):
        if name in properties:
            properties[name]["description"] = doc
    return schema | {"additionalProperties": False}


def _field_docs(cls: type) -> Iterator[tuple[str, str]]:
    """The docstrings of the fields of a class, its parents' first."""
    for parent in getattr(cls, "__orig_bases__", cls.__bases__):
        if is_typeddict(parent) or hasattr(parent, "model_fields"):
            yield from _field_docs(parent)
    for field, text in pairwise(_body(cls)):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                yield name, _plain(doc)


def _body(cls: type) -> list[ast.stmt]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # made by a call, so that its fields have no docstrings
        return []
    match ast.parse(source).body:
        case [ast.ClassDef(body=body)]:
            return body
    return []


def _plain(doc: str) -> str:
    return " ".join(doc.split()).replace("``", "`")


def schema(name: str) -> dict[str, Any]:
    """The schema of the answers of a command."""
    definitions: dict[str, Any] = {}
    kinds = [_kind(kind, definitions) for kind in ANSWERS[name]]
    whole: dict[str, Any] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    title = TITLES.get(name, f"reclaim {name.replace('-', ' ')}")
    return {"$schema": DIALECT, "title": title, **whole} | (
        {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    )


def _kind(kind: Kind, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of one kind of answer; definitions of other types are added to those given."""
    joined: dict[str, Any] = {}
    for part in kind if isinstance(kind, tuple) else (kind,):
        # As the items of a list, so that the type itself is a definition as well.
        made = TypeAdapter(list[part]).json_schema(  # type: ignore[valid-type]
            mode="serialization", schema_generator=_Generator
        )
        found = made.pop("$defs")
        own = found.pop(made["items"]["$ref"].removeprefix("#/$defs/"))
        definitions |= found
        if joined:
            joined["properties"] |= own["properties"]
            joined["required"] = [*dict.fromkeys(joined["required"] + own.get("required", []))]
        else:
            joined = own
    return joined


def text(name: str) -> str:
    """The file with the schema of a command."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    files = {FOLDER / f"{name}.json": text(name) for name in ANSWERS}
    for file in set(FOLDER.glob("*.json")) - files.keys():
        file.unlink()
    for file, written in files.items():
        file.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
