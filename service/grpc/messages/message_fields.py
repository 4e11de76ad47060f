"""Parts of messages that several services share: ids, names, what a outcome did, canonical names."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.producer.access.writing import outcome_of
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.manage_json import MutationMeta
from headwater.schemas.rpc import common_pb2
from headwater.service.grpc.rpc import RpcCall
from headwater.service.http.responses import Response
from headwater.service.iceberg.operations.lakes import prefix_of
from headwater.service.manage.call import meta_of

if TYPE_CHECKING:
    from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall

CATALOG = common_pb2.RESOURCE_KIND_CATALOG
NAMESPACE = common_pb2.RESOURCE_KIND_NAMESPACE
TABLE = common_pb2.RESOURCE_KIND_TABLE
VIEW = common_pb2.RESOURCE_KIND_VIEW


def resource_id(call: RpcCall, kind: common_pb2.ResourceKind, catalog_id: int, id: str = "") -> common_pb2.ResourceId:
    return common_pb2.ResourceId(realm=call.caller.realm, kind=kind, catalog_id=catalog_id, id=id)


def catalog_name(name: str, field: str = "name") -> str:
    if not name:
        raise InvalidInput("it is empty.", field=field, remedy="Name a catalog.")
    return name


def canonical(name: str, field: str) -> str:
    """A name that is created: trimmed, blanks collapsed, NFC. Not NFKC, which would merge distinct names."""
    text = canonical_level(name)
    if not text:
        raise InvalidInput("it is empty.", field=field, remedy="Name it.")
    return text


def canonical_level(name: str) -> str:
    """Empty for one of blanks alone."""
    return unicodedata.normalize("NFC", " ".join(name.split()))


def canonical_path(path: Sequence[str], field: str) -> list[str]:
    if not path:
        raise InvalidInput("it is empty.", field=field, remedy="Name every level.")
    return [canonical(level, field) for level in path]


def prefix(catalog: str, reference: str) -> str:
    """What the Iceberg API calls a branch of a catalog."""
    name = catalog_name(catalog, "catalog")
    if "@" in name:
        raise InvalidInput(f"{name[:80]!r} is not a name of a catalog.", field="catalog", remedy="Name a catalog.")
    return prefix_of(f"{name}@{reference}" if reference else name)


def version_of(message: Any) -> str | None:
    precondition = message.precondition
    return precondition.expected_version if precondition.HasField("expected_version") else None


def set_meta(target: common_pb2.MutationMeta, meta: MutationMeta) -> None:
    target.pointer, target.seq, target.entry_id = meta.pointer, meta.seq, meta.entry_id
    target.version, target.etag, target.time = meta.version or "", meta.etag or "", meta.time or ""
    target.changed, target.replayed = meta.changed, meta.replayed


def set_outcome(target: common_pb2.MutationMeta, request: RpcIcebergCall) -> None:
    """What the commit of an Iceberg operation did; its version is the branch's commit."""
    outcome = request.outcome
    if outcome is None:
        return
    logged = outcome.logged
    if logged is None:
        target.pointer = request.branch.pointer
        return
    done = outcome_of(request.branch.pointer, logged, replayed=outcome.replayed)
    set_meta(target, meta_of(done, logged.commit.hex()))


def decoded(response: Response, kind: type[Any]) -> Any:
    """The handler's JSON as the struct that it was made of."""
    return msgspec.json.decode(response.body, type=kind)


def json_field(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON: {str(error)[:100]}.", field=field, remedy="Send JSON.") from None


def json_object(text: str, field: str) -> dict[str, Any]:
    value = json_field(text, field)
    if not isinstance(value, dict):
        raise InvalidInput("it is not a JSON object.", field=field, remedy="Send an object.")
    return value
