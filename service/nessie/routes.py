"""The routes of Nessie's specification, with their handlers and rights.

`/api/v2/…` is the default catalog, `/api/catalogs/{catalog}/v2/…` any other one. A reference is one segment, or several that
end with one that holds an `@`: `my/branch@/history`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from headwater.schemas.change import KeyPath
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.route import BODY, NO_BODY, Api, Handler, Needs, Route
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
    """⚠ Facts tell messages and authors of commits, so they need what the history needs."""
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
        _text("page-token", "`token` of the page before."),
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


def _route(
    method: str,
    path: str,
    summary: str,
    handler: Handler,
    needs: Needs,
    *parameters: str,
    body: type[msgspec.Struct] | None = None,
    body_is_optional: bool = False,
    is_keyed: bool = True,
) -> Route:
    return Route(
        method=method,
        path=path,
        summary=summary,
        handler=handler,
        needs=needs,
        budget=NO_BODY if body is None else BODY,
        parameters=_parameters(*parameters),
        body=body,
        body_is_optional=body_is_optional,
        also=(408, 409, 413) if method != "GET" else (),
        is_keyed=is_keyed,
    )


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
    rejoin=rejoin,
    routes=(
        _route(
            "GET", f"{PREFIX}/config", "Versions and the default branch.", read_handlers.config, _catalog(_R.REFERENCE_READ)
        ),
        _route(
            "GET",
            f"{PREFIX}/config/repository",
            "The configuration of the repository, of the types that are asked for.",
            read_handlers.repository_config,
            _catalog(_R.REFERENCE_READ),
        ),
        _route(
            "POST",
            f"{PREFIX}/config/repository",
            "Set the configuration of one type.",
            read_handlers.update_repository_config,
            _catalog(_R.CATALOG_UPDATE),
            body=ConfigBody,
        ),
        _route("GET", TREES, "Branches and tags.", reference_handlers.list_references, _SHOWN, "fetch", *_PAGE),
        _route(
            "POST",
            TREES,
            "Create a branch or tag.",
            reference_handlers.create_reference,
            _catalog(_R.REFERENCE_CREATE),
            "name",
            "type",
            body=ReferenceBody,
            body_is_optional=True,
        ),
        _route("GET", REF, "One branch or tag.", reference_handlers.get_reference, _SHOWN, "fetch"),
        _route(
            "PUT",
            REF,
            "Assign a branch or tag.",
            reference_handlers.assign_reference,
            _catalog(_R.REFERENCE_ASSIGN),
            "type",
            body=ReferenceBody,
        ),
        _route(
            "DELETE", REF, "Delete a branch or tag.", reference_handlers.delete_reference, _catalog(_R.REFERENCE_DELETE), "type"
        ),
        _route(
            "GET",
            f"{REF}/recent-changes",
            "The newest heads of a reference.",
            reference_handlers.recent_changes,
            _catalog(_R.CATALOG_READ),
            "scan-commits",
        ),
        _route(
            "GET",
            f"{REF}/history",
            "Commits, newest first.",
            read_handlers.history,
            _catalog(_R.CATALOG_READ),
            "fetch",
            "limit-hash",
            *_PAGE,
        ),
        _route("GET", f"{REF}/entries", "Keys.", read_handlers.entries, _catalog(_R.CATALOG_READ), "content", *_KEYS, *_PAGE),
        _route("GET", f"{REF}/contents", "Contents of keys.", read_handlers.some_contents, _SOME_KEYS, "key", "for-write"),
        _route(
            "POST",
            f"{REF}/contents",
            "Contents of many keys.",
            read_handlers.many_contents,
            _MANY_KEYS,
            "for-write",
            body=KeysBody,
            is_keyed=False,
        ),
        _route("GET", f"{REF}/contents/{{key}}", "The content of a key.", read_handlers.content, _KEY, "for-write"),
        _route("POST", f"{REF}/history/commit", "Commit operations.", commit_handler.commit, _COMMIT, body=CommitBody),
        _route(
            "POST",
            f"{REF}/history/merge",
            "Merge another reference.",
            merge_handlers.merge,
            _catalog(_R.CATALOG_WRITE),
            body=MergeBody,
        ),
        _route(
            "POST",
            f"{REF}/history/transplant",
            "Transplant commits.",
            merge_handlers.transplant,
            _catalog(_R.CATALOG_WRITE),
            body=TransplantBody,
        ),
        _route(
            "GET",
            f"{TREES}/{{from}}/diff/{{to}}",
            "What differs between two references.",
            read_handlers.diff,
            _catalog(_R.CATALOG_READ),
            *_KEYS,
            *_PAGE,
        ),
    ),
)
