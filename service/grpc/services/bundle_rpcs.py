"""PlanningService/GetCatalogBundle: relations of a query, with their types, statistics and builtins, part by part."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from headwater.producer.plans.plan_rows import Plan, PlanInput
from headwater.schemas.errors import HeadwaterError, InvalidInput
from headwater.schemas.rpc import planning_pb2
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.bundles.builtins import all_builtins
from headwater.service.bundles.relation_names import Place, Session, candidates, session_of
from headwater.service.bundles.relations import Relations, enrichers, temporary_relation
from headwater.service.gate.route import STREAM, Needs, Route
from headwater.service.grpc.contents.references import realm_of
from headwater.service.grpc.messages.bundle_messages import (
    EncodedRelation,
    EncodedRelations,
    encoded,
    messages,
    part,
    resolution_part,
)
from headwater.service.grpc.messages.message_fields import json_object
from headwater.service.grpc.messages.plan_messages import pin_message
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall
from headwater.service.http.responses import Response
from headwater.service.iceberg.operations import lake_branch
from headwater.service.iceberg.plans.plan_operations import PlanOperations, branch_pins
from headwater.service.manage.call import ManageCall
from headwater.service.manage.route import IN_REALM

METHOD = "io.headwater.planning.v1.PlanningService/GetCatalogBundle"
RELATIONS_MAX = 1_000
RESOLVED_AT_ONCE = 100
_READ = {lake_branch.TABLE: Right.TABLE_READ, lake_branch.VIEW: Right.VIEW_READ}


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
"""gRPC only: it is in no HTTP table."""


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
    relations = await asyncio.to_thread(Relations, request.kernel, service.lakes, plan, message.reference, request.guard)
    bundle = _Bundle(call, request, session, relations)
    sent = [part(header=_header(plan))]
    for first in range(0, len(message.relations), RESOLVED_AT_ONCE):
        refs = message.relations[first : first + RESOLVED_AT_ONCE]
        for ready in messages([*sent, *await asyncio.to_thread(bundle.resolved, first, refs)]):
            yield ready
        sent = []
    for ready in messages([*sent, *_builtins(message), part(session=_session_message(session, message.session)), bundle.end()]):
        yield ready


def _builtins(message: Any) -> Iterator[bytes]:
    builtins = all_builtins()
    if message.include_builtins and message.builtins_digest != builtins.digest:
        yield part(
            builtins=planning_pb2.Builtins(
                digest=builtins.digest,
                functions=[
                    planning_pb2.BuiltinFunction(name=one.name, arguments=one.arguments, result=one.result, doc=one.doc)
                    for one in builtins.functions
                ],
                types=[planning_pb2.BuiltinType(name=one.name, doc=one.doc) for one in builtins.types],
            )
        )


class _Bundle:
    """What was sent of one bundle."""

    def __init__(self, call: RpcCall, request: ManageCall, session: Session, relations: Relations) -> None:
        self._call, self._request = call, request
        self._session, self._relations = session, relations
        self._encoded: EncodedRelations = request.service.encoded_relations
        self._types: set[int] = set()
        self._statuses: Counter[int] = Counter()

    def resolved(self, first: int, refs: Sequence[Any]) -> list[bytes]:
        """Parts of several relations; may wait for the store."""
        places = {place for ref in refs for place in candidates(self._session, ref.catalog, tuple(ref.path))}
        readable = {place: kinds for place in places if (kinds := self._readable(place))}
        self._relations.read_ahead(readable)
        return [one for number, ref in enumerate(refs, first) for one in self._resolved(number, ref, readable)]

    def end(self) -> bytes:
        return part(
            end=planning_pb2.BundleEnd(
                types=len(self._types),
                found=self._statuses[planning_pb2.RESOLUTION_STATUS_FOUND],
                not_found=self._statuses[planning_pb2.RESOLUTION_STATUS_NOT_FOUND],
                errors=self._statuses[planning_pb2.RESOLUTION_STATUS_ERROR],
            )
        )

    def _resolved(self, index: int, ref: Any, readable: Mapping[Place, frozenset[str]]) -> list[bytes]:
        """⚠ A failure is an ERROR, never NOT_FOUND: a planner would go on with another relation."""
        made = planning_pb2.Resolution(index=index, status=planning_pb2.RESOLUTION_STATUS_NOT_FOUND)
        relation, types = b"", list[bytes]()
        try:
            found = self._find(ref, made, readable)
            if found is not None:
                made.status, relation = planning_pb2.RESOLUTION_STATUS_FOUND, found.relation
                types = [type_part for id, type_part in found.types if id not in self._types]
                self._types.update(id for id, _ in found.types)
        except HeadwaterError as error:
            made.status = planning_pb2.RESOLUTION_STATUS_ERROR
            made.error_code, made.error = error.code, str(error)[:500]
        self._statuses[made.status] += 1
        return [*types, resolution_part(made, relation)]

    def _find(
        self, ref: Any, made: planning_pb2.Resolution, readable: Mapping[Place, frozenset[str]]
    ) -> EncodedRelation | None:
        path = tuple(ref.path)
        if not ref.catalog and len(path) == 1 and path[0] in self._session.temporary:
            return encoded(temporary_relation(path[0], self._session.temporary[path[0]]))
        for place in candidates(self._session, ref.catalog, path):
            made.attempted.add(catalog=place.catalog, path=place.path)
            kinds = readable.get(place)
            found = None if kinds is None else self._relations.find(place)
            if found is not None and kinds is not None and found.type in kinds:
                return self._encoded_relation(place, found)
        return None

    def _encoded_relation(self, place: Place, found: PlanInput) -> EncodedRelation:
        """What plug-ins add may change at any time: then nothing is kept."""
        known = self._relations.known(found)
        if enrichers():
            return encoded(self._relations.read(place, found, known))
        key = (self._request.kernel.realm, place, found, known)
        kept = self._encoded.get(key)
        if kept is None:
            kept = encoded(self._relations.read(place, found, known))
            self._encoded.keep(key, kept, kept.weight_bytes)
        return kept

    def _readable(self, place: Place) -> frozenset[str]:
        over, allows = Securable(place.catalog, place.path), self._request.access.allows_now
        return frozenset(kind for kind, right in _READ.items() if allows(self._call.caller, right, over))


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


ROWS = (Rpc(method=METHOD, routes=(_BUNDLE,), bind=_bind, serve=_parts),)
