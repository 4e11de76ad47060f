"""PlanningService/GetCatalogBundle: relations of a query, with their types, statistics and builtins, part by part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from google.protobuf.message import Message

from headwater.producer.plans.plan_rows import Plan
from headwater.schemas.errors import HeadwaterError, InvalidInput
from headwater.schemas.rpc import planning_pb2
from headwater.schemas.rpc.planning_pb2 import GetCatalogBundleResponse
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.bundles.builtins import all_builtins
from headwater.service.bundles.relation_names import Place, Session, candidates, session_of
from headwater.service.bundles.relation_types import TypeRegistry
from headwater.service.bundles.relations import Relation, RelationColumn, Relations, temporary_relation
from headwater.service.gate.route import STREAM, Needs, Route
from headwater.service.grpc.contents.references import realm_of
from headwater.service.grpc.messages.message_fields import TABLE, VIEW, json_object
from headwater.service.grpc.messages.plan_messages import obligation_message, pin_message
from headwater.service.grpc.messages.statistics_messages import column_message, summary_message
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall
from headwater.service.http.responses import Response
from headwater.service.iceberg.operations import lake_branch
from headwater.service.iceberg.plans.plan_operations import PlanOperations, branch_pins
from headwater.service.manage.call import ManageCall
from headwater.service.manage.route import IN_REALM

METHOD = "io.headwater.planning.v1.PlanningService/GetCatalogBundle"
RELATIONS_MAX = 1_000
_KINDS = {lake_branch.TABLE: (TABLE, Right.TABLE_READ), lake_branch.VIEW: (VIEW, Right.VIEW_READ)}


def _unused(request: ManageCall) -> Response:
    raise LookupError("bundles have no HTTP sibling")


_BUNDLE = Route(
    "POST",
    f"{IN_REALM}/bundles",
    "What a planner must know of relations.",
    _unused,
    Needs(right=None, where="each relation: one that may not be read is NOT_FOUND in the answer", is_filtered=True),
    STREAM,
)
"""Of gRPC alone: it is in no HTTP table."""


def _bind(call: RpcCall) -> Bound:
    relations = call.message.relations
    if len(relations) > RELATIONS_MAX:
        raise InvalidInput(f"{len(relations)} relations.", field="relations", remedy=f"Name at most {RELATIONS_MAX}.")
    if any(not one.path or not all(one.path) for one in relations):
        raise InvalidInput("a name is empty, or one of its levels is.", field="relations", remedy="Name every level.")
    if call.message.plan_id and call.message.reference:
        raise InvalidInput("a plan has its own states.", field="reference", remedy="Leave it out.")
    return Bound(route=_BUNDLE)


async def _parts(call: RpcCall, request: ManageCall) -> AsyncIterator[bytes]:
    await realm_of(call)  # the system realm has no relations
    message, service = call.message, call.runtime.service
    session = _session(message.session)
    operations = PlanOperations(request.kernel, service.lakes, service.config.plans, service.plan_counts, request.guard)
    plan = await asyncio.to_thread(operations.live, message.plan_id, call.caller.owner_id) if message.plan_id else None
    yield _sent(header=_header(plan))
    relations = await asyncio.to_thread(Relations, request.kernel, service.lakes, plan, message.reference, request.guard)
    bundle = _Bundle(call, request, session, relations)
    for index, ref in enumerate(message.relations):
        for part in await asyncio.to_thread(bundle.resolved, index, ref):
            yield part
    builtins = all_builtins()
    if message.include_builtins and message.builtins_digest != builtins.digest:
        yield _sent(
            builtins=planning_pb2.Builtins(
                digest=builtins.digest,
                functions=[
                    planning_pb2.BuiltinFunction(name=one.name, arguments=one.arguments, result=one.result, doc=one.doc)
                    for one in builtins.functions
                ],
                types=[planning_pb2.BuiltinType(name=one.name, doc=one.doc) for one in builtins.types],
            )
        )
    yield _sent(session=_session_message(session, message.session))
    yield _sent(end=bundle.counts())


class _Bundle:
    """What was sent of one bundle."""

    def __init__(self, call: RpcCall, request: ManageCall, session: Session, relations: Relations) -> None:
        self._call, self._request = call, request
        self._session, self._relations = session, relations
        self._types = TypeRegistry()
        self._statuses: list[int] = []

    def resolved(self, index: int, ref: Any) -> list[bytes]:
        """⚠ A failure is an ERROR, never NOT_FOUND: a planner would go on with another relation."""
        made = planning_pb2.Resolution(index=index, status=planning_pb2.RESOLUTION_STATUS_NOT_FOUND)
        types: list[bytes] = []
        try:
            relation = self._find(ref, made)
            if relation is not None:
                types = list(self._fill(made.relation, relation))
                made.status = planning_pb2.RESOLUTION_STATUS_FOUND
        except HeadwaterError as error:
            made.ClearField("relation")
            made.status = planning_pb2.RESOLUTION_STATUS_ERROR
            made.error_code, made.error = error.code, str(error)[:500]
        self._statuses.append(made.status)
        return [*types, _sent(resolution=made)]

    def counts(self) -> planning_pb2.BundleEnd:
        return planning_pb2.BundleEnd(
            types=len(self._types),
            found=self._statuses.count(planning_pb2.RESOLUTION_STATUS_FOUND),
            not_found=self._statuses.count(planning_pb2.RESOLUTION_STATUS_NOT_FOUND),
            errors=self._statuses.count(planning_pb2.RESOLUTION_STATUS_ERROR),
        )

    def _find(self, ref: Any, made: planning_pb2.Resolution) -> Relation | None:
        path = tuple(ref.path)
        if not ref.catalog and len(path) == 1 and path[0] in self._session.temporary:
            return temporary_relation(path[0], self._session.temporary[path[0]])
        for place in candidates(self._session, ref.catalog, path):
            made.attempted.add(catalog=place.catalog, path=place.path)
            if not any(self._may(right, place) for _, right in _KINDS.values()):
                continue
            found = self._relations.find(place)
            if found is not None and self._may(_KINDS[found.type][1], place):
                return self._relations.read(place, found)
        return None

    def _may(self, right: Right, place: Place) -> bool:
        return self._request.access.allows_now(self._call.caller, right, Securable(place.catalog, place.path))

    def _fill(self, shown: planning_pb2.Relation, relation: Relation) -> Iterator[bytes]:
        """The types that were not sent before."""
        found = relation.found
        shown.name.catalog = relation.place.catalog
        shown.name.path.extend(relation.place.path)
        shown.is_temporary = found is None
        shown.enrichments.update(relation.enrichments)
        shown.obligations.extend(obligation_message(one) for one in relation.obligations)
        shown.sql.extend(planning_pb2.ViewSql(dialect=dialect, sql=sql) for dialect, sql in relation.sql)
        if found is not None:
            shown.kind, shown.content_id, shown.metadata_location = (
                _KINDS[found.type][0],
                found.content_id,
                found.metadata_location,
            )
            if found.snapshot_id is not None:
                shown.snapshot_id = found.snapshot_id
        if relation.statistics is not None:
            shown.stats.CopyFrom(summary_message(relation.statistics))
        for column in relation.columns:
            id, new = self._types.add(column.type)
            shown.columns.append(_column(column, id))
            if new is not None:
                yield _sent(type=planning_pb2.TypeInfo(id=new.id, name=new.name, json=new.json))


def _column(column: RelationColumn, type_id: int) -> planning_pb2.Column:
    return planning_pb2.Column(
        column_id=column.id,
        name=column.name,
        type_id=type_id,
        required=column.required,
        doc=column.doc,
        is_partition=column.is_partition,
        stats=None if column.statistics is None else column_message(column.statistics),
    )


def _session(given: Any) -> Session:
    default = _place(given.default_namespace) if given.HasField("default_namespace") else None
    temporary = []
    for number, one in enumerate(given.temporary_relations):
        field = f"session.temporary_relations[{number}].schema"
        schema = json_object(one.schema, field)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(each, dict) and isinstance(each.get("id"), int) and isinstance(each.get("name"), str) and "type" in each
            for each in fields
        ):
            raise InvalidInput("it is not a schema.", field=field, remedy="Send it as Iceberg writes it.")
        temporary.append((one.name, schema))
    return session_of(default, [_place(one) for one in given.search_path], temporary)


def _place(given: Any) -> Place:
    if not given.catalog or not all(given.path):
        raise InvalidInput("it has no catalog, or an empty level.", field="session", remedy="Name every level.")
    return Place(given.catalog, tuple(given.path))


def _session_message(session: Session, given: Any) -> planning_pb2.Session:
    shown = planning_pb2.Session(temporary_relations=given.temporary_relations)
    if session.default_namespace is not None:
        shown.default_namespace.catalog = session.default_namespace.catalog
        shown.default_namespace.path.extend(session.default_namespace.path)
    shown.search_path.extend(planning_pb2.NamespacePath(catalog=one.catalog, path=one.path) for one in session.search_path)
    return shown


def _header(plan: Plan | None) -> planning_pb2.BundleHeader:
    if plan is None:
        return planning_pb2.BundleHeader()
    return planning_pb2.BundleHeader(plan_id=plan.id, pins=[pin_message(one) for one in branch_pins(plan)])


def _sent(**part: Message) -> bytes:
    sent: bytes = GetCatalogBundleResponse(**part).SerializeToString()  # type: ignore[arg-type]
    return sent


ROWS = (Rpc(method=METHOD, routes=(_BUNDLE,), bind=_bind, serve=_parts),)
