"""Lists, creates and deletes namespaces of a branch."""

from __future__ import annotations

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.log_entry import LogRecord
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit, CommitResult, commit_result
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation, Delete, Put
from headwater.producer.content.content_types import Namespace
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CommitConflict, ContentExists, InvalidInput, NamespaceNotEmpty, NamespaceNotFound
from headwater.schemas.http.manage_json import Gone, NamespaceBody, NamespaceInfo, NamespacesPage, NamespaceWritten
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.request import LEVELS
from headwater.service.gate.route import BODY, Needs, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned
from headwater.service.manage.route import IN_CATALOG, Over, namespace_of

NAMESPACE = "NAMESPACE"
DELETED_MAX = 10_000
"""Limit for one request that deletes a namespace with everything inside."""


def list_namespaces(call: ManageCall) -> Response:
    parent = call.path("parent")
    if parent:
        _namespace(call, parent)
    page = Snapshots(call.kernel, call.catalog.id).page(
        _at(call),
        prefix=parent,
        name_prefix=call.query["name_prefix"] or "",
        types=[NAMESPACE],
        children_only=call.query["recursive"] != "true",
        token=call.query["token"],
        limit=call.query["limit"],
    )
    return json_response(NamespacesPage(namespaces=[_info(one) for one in page.entries], next_token=page.next_token))


def get_namespace(call: ManageCall) -> Response:
    return json_response(_info(_namespace(call, call.path("namespace"))))


def create_namespace(call: ManageCall) -> Response:
    body = call.read(NamespaceBody)
    key = tuple(body.path)
    if any(LEVELS in level for level in key):
        raise InvalidInput("a level holds %1F, so no path could name it.", field="path", remedy="Leave it out.")
    put = Put(key, Namespace(body.properties), must_not_exist=True)
    try:
        done = _commit(call, [put], f"Create namespace {'.'.join(key)}")
    except CommitConflict as conflict:
        if _has(conflict, "KEY_EXISTS"):
            raise ContentExists(f"{'.'.join(key)!r} exists already.", field="path", remedy="Choose another name.") from conflict
        raise
    # ⚠ As the commit made it: another caller may have dropped, moved or replaced it since.
    at = _at(call) if done.logged is None else done.logged
    written = NamespaceWritten(namespace=_info(_namespace(call, key, at)), meta=meta_of(_outcome(call, done), done.commit_id))
    return versioned(written, done.commit_id, 201)


def delete_namespace(call: ManageCall) -> Response:
    key = call.path("namespace")
    return call.gone(_pointer(call), lambda: _outcome(call, _delete(call, key)))


def _delete(call: ManageCall, key: KeyPath) -> CommitResult:
    there = _namespace(call, key)
    operations: list[CatalogOperation] = [Delete(key, expected_content_id=there.content_id)]
    if call.query["require_empty"] != "true":
        operations += [Delete(one.key, expected_content_id=one.content_id) for one in _inside(call, key)]
    try:
        return _commit(call, operations, f"Delete namespace {'.'.join(key)}")
    except CommitConflict as conflict:
        if _has(conflict, "NAMESPACE_NOT_EMPTY"):
            raise NamespaceNotEmpty(
                f"{'.'.join(key)!r} is not empty.", field="namespace", remedy="Delete what is inside first."
            ) from conflict
        raise


def _inside(call: ManageCall, key: KeyPath) -> list[ContentEntry]:
    page = Snapshots(call.kernel, call.catalog.id).page(_at(call), prefix=key, limit=DELETED_MAX)
    if page.next_token is not None:
        raise InvalidInput(
            f"more than {DELETED_MAX} things are inside.", field="namespace", remedy="Delete the namespaces inside first."
        )
    return list(page.entries)


def _commit(call: ManageCall, operations: list[CatalogOperation], message: str) -> CommitResult:
    meta = call.meta
    request = CatalogCommit(
        call.kernel,
        operations,
        CommitMeta(meta.author, message, meta.headers),
        request_id=meta.request_id,
        expected_head=call.version,
    )
    return commit_result(call.kernel, call.kernel.committer.commit(_pointer(call), request))


def _namespace(call: ManageCall, key: KeyPath, at: LogRecord | None = None) -> ContentEntry:
    found = Snapshots(call.kernel, call.catalog.id).get(at or _at(call), [key]).get(key)
    if found is None or found.type != NAMESPACE:
        raise NamespaceNotFound(f"there is no namespace {'.'.join(key)!r}.", field="namespace", remedy="List the namespaces.")
    return found


def _at(call: ManageCall) -> LogRecord:
    references = Catalogs(call.kernel).references(call.catalog)
    return references.resolve(call.query["branch"] or call.catalog.default_branch, field="branch").logged


def _pointer(call: ManageCall) -> str:
    return branch_pointer(call.catalog.id, call.query["branch"] or call.catalog.default_branch)


def _has(conflict: CommitConflict, kind: str) -> bool:
    conflicts = conflict.facts.get("conflicts")
    return isinstance(conflicts, list) and any(isinstance(one, dict) and one.get("kind") == kind for one in conflicts)


def _outcome(call: ManageCall, done: CommitResult) -> CommitOutcome:
    return done.outcome(_pointer(call))


def _info(entry: ContentEntry) -> NamespaceInfo:
    return NamespaceInfo(
        path=list(entry.key), properties=dict(entry.value.get("properties", {})), content_id=str(entry.content_id)
    )


def _parent(call: ManageCall) -> Securable:
    return Securable(call.names["catalog"], tuple(call.read(NamespaceBody).path[:-1]))


def _dropping(call: ManageCall) -> list[tuple[Right, Securable]]:
    """What is inside goes too if that is asked for."""
    over = namespace_of(call)
    needed = [(Right.NAMESPACE_DROP, over)]
    return needed if call.query["require_empty"] == "true" else [*needed, (Right.COMMIT_WRITE, over)]


_NAMESPACE = f"{IN_CATALOG}/namespaces/{{namespace}}"
ROUTES = (
    Route(
        "GET",
        f"{IN_CATALOG}/namespaces",
        "Namespaces of a branch: one level, or all below.",
        list_namespaces,
        Over.PARENT.needs(Right.NAMESPACE_LIST),
        parameters=parameters.NAMESPACES,
        answer=NamespacesPage,
    ),
    Route(
        "POST",
        f"{IN_CATALOG}/namespaces",
        "Create a namespace.",
        create_namespace,
        Needs(
            right=Right.NAMESPACE_CREATE,
            where="the parent namespace",
            body=lambda call: [(Right.NAMESPACE_CREATE, _parent(call))],
            anywhere=(Right.NAMESPACE_CREATE,),
        ),
        BODY,
        parameters=parameters.ON_BRANCH,
        body=NamespaceBody,
        answer=NamespaceWritten,
        status=201,
    ),
    Route(
        "GET",
        _NAMESPACE,
        "One namespace; levels separated by %1F.",
        get_namespace,
        Over.NAMESPACE.needs(Right.NAMESPACE_READ),
        parameters=parameters.ON_BRANCH,
        answer=NamespaceInfo,
    ),
    Route(
        "DELETE",
        _NAMESPACE,
        "Delete a namespace.",
        delete_namespace,
        Needs(right=Right.NAMESPACE_DROP, where="the namespace", path=_dropping),
        parameters=parameters.DELETE_NAMESPACE,
        answer=Gone,
    ),
)
