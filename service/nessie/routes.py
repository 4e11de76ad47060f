"""The routes of Nessie's specification, with their handlers and rights.

`/api/v2/…` is the default catalog, `/api/catalogs/{catalog}/v2/…` any other one. A reference is one segment, or several that
end with one that holds an `@`: `my/branch@/history`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headwater.schemas.change import KeyPath
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.route import BODY, Api, Needs, Route
from headwater.service.http.parameters import Parameter
from headwater.service.nessie import commit_handler, merge_handlers, read_handlers, reference_handlers
from headwater.service.nessie.call import PREFIX, NessieCall
from headwater.service.nessie.commit_handler import CommitBody
from headwater.service.nessie.error_shape import NessieErrors
from headwater.service.nessie.merge_handlers import MergeBody, TransplantBody
from headwater.service.nessie.read_handlers import ConfigBody, KeysBody
from headwater.service.nessie.reference_handlers import ReferenceBody

TREES = f"{PREFIX}/trees"
REF = f"{TREES}/{{ref}}"
COMMITTING = (
    Right.COMMIT_WRITE,
    Right.TABLE_CREATE,
    Right.TABLE_WRITE,
    Right.VIEW_CREATE,
    Right.VIEW_WRITE,
    Right.NAMESPACE_CREATE,
    Right.NAMESPACE_WRITE,
)
Needed = Iterable[tuple[Right, Securable]]


def _catalog(right: Right) -> Needs:
    return Needs(right=right, where="the catalog", path=lambda call: [(right, Securable(call.catalog_name))])


def _references(call: NessieCall) -> Needed:
    """⚠ Facts reveal messages and authors of commits, so they need the right to read the history."""
    yield Right.REFERENCE_READ, Securable(call.catalog_name)
    if call.fetches_all:
        yield Right.CATALOG_READ, Securable(call.catalog_name)


def _contents(keys: Callable[[NessieCall], Iterable[KeyPath]]) -> Callable[[NessieCall], Needed]:
    """Over each key, or over the catalog if there is none."""

    def needed(call: NessieCall) -> Needed:
        writes = call.flag("for-write")
        for key in list(keys(call)) or [()]:
            yield Right.TABLE_READ, Securable(call.catalog_name, key)
            if writes:
                yield Right.TABLE_WRITE, Securable(call.catalog_name, key)

    return needed


_KEY = Needs(right=Right.TABLE_READ, where="each key", path=_contents(lambda call: [call.key]))
_SOME_KEYS = Needs(right=Right.TABLE_READ, where="each key", path=_contents(lambda call: call.key_range.keys))
_MANY_KEYS = Needs(
    right=Right.TABLE_READ,
    where="each key",
    body=_contents(lambda call: [key.path for key in call.read(KeysBody).requested_keys]),
    anywhere=(Right.TABLE_READ,),
)
_COMMIT = Needs(right=Right.COMMIT_WRITE, where="each key", check=commit_handler.require_rights, anywhere=COMMITTING)
_SHOWN = Needs(right=Right.REFERENCE_READ, where="the catalog", path=_references)


def _parameters(*names: str) -> tuple[Parameter, ...]:
    return tuple(_PARAMETERS[name] for name in names)


def _text(name: str, description: str, *, many: bool = False) -> Parameter:
    return Parameter(name=name, length_max=4_000, many=many, description=description)


_PARAMETERS = {
    one.name: one
    for one in (
        _text("name", "Name of the new branch or tag."),
        Parameter(name="type", choices=("BRANCH", "TAG"), description="What it is."),
        Parameter(name="fetch", choices=("MINIMAL", "ALL"), description="With facts about commits, or without."),
        _text("filter", "A CEL expression."),
        _text("page-token", "`token` of the previous page."),
        Parameter(name="max-records", type="integer", minimum=0, description="How many at most."),
        Parameter(name="scan-commits", type="integer", minimum=0, description="How many commits are looked at."),
        _text("limit-hash", "The oldest commit to show."),
        _text("min-key", "No smaller keys."),
        _text("max-key", "No larger keys."),
        _text("prefix-key", "Only keys at or below."),
        _text("key", "Only these keys.", many=True),
        Parameter(name="content", choices=("true", "false"), description="With the contents."),
        Parameter(
            name="for-write", choices=("true", "false"), description="Whether they will be written: needs `table.write`."
        ),
    )
}
_PAGE = ("max-records", "page-token", "filter")
_KEYS = ("key", "min-key", "max-key", "prefix-key")


def rejoin(segments: Sequence[str]) -> list[str]:
    """References with slashes as one segment each: the first behind `trees`, a second one behind `diff`."""
    if "trees" not in segments:
        return list(segments)
    start = segments.index("trees")
    before, behind = segments[: start + 1], segments[start + 1 :]
    first = next((position for position, segment in enumerate(behind) if "@" in segment), None)
    if first is None:
        return list(segments)
    joined = ["/".join(behind[: first + 1]), *behind[first + 1 :]]
    if joined[1:2] == ["diff"] and len(joined) > 3 and "@" in joined[-1]:
        joined = [*joined[:2], "/".join(joined[2:])]
    return [*before, *joined]


_R = Right
NESSIE = Api(
    name="nessie",
    prefix="/api",
    alias="/api/catalogs/{catalog}/v2",
    alias_of=PREFIX,
    summary="Nessie's REST API v2: branches, tags, commits, merges. /api/catalogs/{catalog}/v2 serves any other catalog.",
    errors=NessieErrors(),
    is_lenient=True,
    head_as_get=True,
    also=lambda route: () if route.method == "GET" else (408, 409, 413),
    rejoin=rejoin,
    routes=(
        Route("GET", f"{PREFIX}/config", "Versions and the default branch.", read_handlers.config, _catalog(_R.REFERENCE_READ)),
        Route(
            "GET",
            f"{PREFIX}/config/repository",
            "The configuration of the repository, of the requested types.",
            read_handlers.repository_config,
            _catalog(_R.REFERENCE_READ),
        ),
        Route(
            "POST",
            f"{PREFIX}/config/repository",
            "Set the configuration of one type.",
            read_handlers.update_repository_config,
            _catalog(_R.CATALOG_UPDATE),
            BODY,
            body=ConfigBody,
        ),
        Route(
            "GET",
            TREES,
            "Branches and tags.",
            reference_handlers.list_references,
            _SHOWN,
            parameters=_parameters("fetch", *_PAGE),
        ),
        Route(
            "POST",
            TREES,
            "Create a branch or tag.",
            reference_handlers.create_reference,
            _catalog(_R.REFERENCE_CREATE),
            BODY,
            parameters=_parameters("name", "type"),
            body=ReferenceBody,
            body_is_optional=True,
        ),
        Route("GET", REF, "One branch or tag.", reference_handlers.get_reference, _SHOWN, parameters=_parameters("fetch")),
        Route(
            "PUT",
            REF,
            "Assign a branch or tag.",
            reference_handlers.assign_reference,
            _catalog(_R.REFERENCE_ASSIGN),
            BODY,
            parameters=_parameters("type"),
            body=ReferenceBody,
        ),
        Route(
            "DELETE",
            REF,
            "Delete a branch or tag.",
            reference_handlers.delete_reference,
            _catalog(_R.REFERENCE_DELETE),
            parameters=_parameters("type"),
        ),
        Route(
            "GET",
            f"{REF}/recent-changes",
            "The newest heads of a reference.",
            reference_handlers.recent_changes,
            _catalog(_R.CATALOG_READ),
            parameters=_parameters("scan-commits"),
        ),
        Route(
            "GET",
            f"{REF}/history",
            "Commits, newest first.",
            read_handlers.history,
            _catalog(_R.CATALOG_READ),
            parameters=_parameters("fetch", "limit-hash", *_PAGE),
        ),
        Route(
            "GET",
            f"{REF}/entries",
            "Keys.",
            read_handlers.entries,
            _catalog(_R.CATALOG_READ),
            parameters=_parameters("content", *_KEYS, *_PAGE),
        ),
        Route(
            "GET",
            f"{REF}/contents",
            "Contents of keys.",
            read_handlers.some_contents,
            _SOME_KEYS,
            parameters=_parameters("key", "for-write"),
        ),
        Route(
            "POST",
            f"{REF}/contents",
            "Contents of many keys.",
            read_handlers.many_contents,
            _MANY_KEYS,
            BODY,
            parameters=_parameters("for-write"),
            body=KeysBody,
            is_keyed=False,
        ),
        Route(
            "GET",
            f"{REF}/contents/{{key}}",
            "The content of a key.",
            read_handlers.content,
            _KEY,
            parameters=_parameters("for-write"),
        ),
        Route("POST", f"{REF}/history/commit", "Commit operations.", commit_handler.commit, _COMMIT, BODY, body=CommitBody),
        Route(
            "POST",
            f"{REF}/history/merge",
            "Merge another reference.",
            merge_handlers.merge,
            _catalog(_R.CATALOG_WRITE),
            BODY,
            body=MergeBody,
        ),
        Route(
            "POST",
            f"{REF}/history/transplant",
            "Transplant commits.",
            merge_handlers.transplant,
            _catalog(_R.CATALOG_WRITE),
            BODY,
            body=TransplantBody,
        ),
        Route(
            "GET",
            f"{TREES}/{{from}}/diff/{{to}}",
            "What differs between two references.",
            read_handlers.diff,
            _catalog(_R.CATALOG_READ),
            parameters=_parameters(*_KEYS, *_PAGE),
        ),
    ),
)
