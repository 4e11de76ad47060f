"""Bad input over gRPC: the status and the details of the table in docs/grpc.md, and nothing is changed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from headwater.producer.page_tokens import make_token
from headwater.schemas.errors import RequestTooSlow
from headwater.schemas.rpc import catalog_pb2, common_pb2, feed_pb2, namespace_pb2, table_pb2
from headwater.schemas.rpc.services import RpcMethod, all_methods
from headwater.service.grpc.call_context import call_context
from headwater.service.grpc.messages.paging import RpcToken, filter_of
from headwater.service.grpc.pipeline import Pipeline, receive_one
from headwater.service.grpc.rpc_table import RPCS
from headwater.service.grpc.runtime import Runtime
from headwater.service.grpc.services.reference_rpcs import STATES
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, filled, grpc_rig, one_message
from tests.support.fixtures.random_messages import random_message

DB = common_pb2.Name(catalog="lake", path=["db"])
BY_NAME = common_pb2.ContentRef(name=DB)
NO_KIND = common_pb2.ContentRef(id=common_pb2.ResourceId(kind=99, catalog_id=1, id="x"))  # type: ignore[arg-type]
DEFECTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
FUZZ_SEED = 17
FUZZ_ROUNDS = 6
RANDOM_ROUNDS = 500 if os.environ.get("HEADWATER_SOAK") else 8


PAGED = [one for one in all_methods() if "page" in one.request.DESCRIPTOR.fields_by_name]


class Bad(NamedTuple):
    method: str
    request: Message
    status: grpc.StatusCode
    reason: str
    field: str | None = None
    """Of the violation in BadRequest."""


INVALID, MISSING = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
TABLE = {
    "no mask": Bad(
        "NamespaceService/UpdateNamespace",
        namespace_pb2.UpdateNamespaceRequest(target=BY_NAME),
        INVALID,
        "INVALID_INPUT",
        "update_mask",
    ),
    "an unknown path of a mask": Bad(
        "CatalogService/UpdateCatalog",
        catalog_pb2.UpdateCatalogRequest(name="lake", update_mask=FieldMask(paths=["colour"])),
        INVALID,
        "INVALID_INPUT",
        "update_mask",
    ),
    "an empty name": Bad(
        "CatalogService/CreateCatalog", catalog_pb2.CreateCatalogRequest(name=" \t"), INVALID, "INVALID_INPUT", "name"
    ),
    "an empty level": Bad(
        "NamespaceService/CreateNamespace",
        namespace_pb2.CreateNamespaceRequest(name=common_pb2.Name(catalog="lake", path=["a", ""])),
        INVALID,
        "INVALID_INPUT",
        "name.path",
    ),
    "an unknown kind of resource": Bad(
        "NamespaceService/DeleteNamespace",
        namespace_pb2.DeleteNamespaceRequest(namespace=NO_KIND),
        INVALID,
        "INVALID_INPUT",
    ),
    "a schema that is not JSON": Bad(
        "TableService/CreateTable",
        table_pb2.CreateTableRequest(name=common_pb2.Name(catalog="lake", path=["db", "t"]), schema="{"),
        INVALID,
        "INVALID_INPUT",
        "schema",
    ),
    "a catalog that is not there": Bad(
        "NamespaceService/ListNamespaces",
        namespace_pb2.ListNamespacesRequest(catalog="absent"),
        MISSING,
        "CATALOG_NOT_FOUND",
    ),
    "a token of nobody": Bad(
        "CatalogService/ListCatalogs",
        catalog_pb2.ListCatalogsRequest(page=common_pb2.PageRequest(token="made-up")),
        INVALID,
        "INVALID_INPUT",
    ),
    "a page too large": Bad(
        "CatalogService/ListCatalogs",
        catalog_pb2.ListCatalogsRequest(page=common_pb2.PageRequest(size=1_001)),
        INVALID,
        "INVALID_INPUT",
        "page.size",
    ),
    "an operation that does not exist": Bad(
        "FeedService/Commit",
        feed_pb2.CommitRequest(catalog="lake", operations=[feed_pb2.Operation(op="explode", key=["x"])]),
        INVALID,
        "INVALID_INPUT",
    ),
    "a name that is taken": Bad(
        "NamespaceService/CreateNamespace",
        namespace_pb2.CreateNamespaceRequest(name=DB),
        grpc.StatusCode.ALREADY_EXISTS,
        "CONTENT_EXISTS",
    ),
    "a namespace that is not empty": Bad(
        "NamespaceService/DeleteNamespace",
        namespace_pb2.DeleteNamespaceRequest(namespace=BY_NAME),
        grpc.StatusCode.FAILED_PRECONDITION,
        "NAMESPACE_NOT_EMPTY",
    ),
    "a version that is not the catalog's": Bad(
        "CatalogService/UpdateCatalog",
        catalog_pb2.UpdateCatalogRequest(
            name="lake",
            update_mask=FieldMask(paths=["properties"]),
            precondition=common_pb2.Precondition(expected_version="0"),
        ),
        grpc.StatusCode.FAILED_PRECONDITION,
        "PRECONDITION_FAILED",
    ),
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-bad-input")) as made:
        made.rig.commit("alpha", ("db",), ("db", "inner")).raise_for_status()
        yield made


@pytest.fixture(scope="module")
def owner(port: GrpcRig) -> tuple[str, str]:
    return bearer(port.rig.token("alpha"))


def _method(name: str) -> RpcMethod:
    return next(one for one in all_methods() if one.name.endswith(f".{name}"))


def _heads(port: GrpcRig) -> list[tuple[str, bytes]]:
    kernel = port.rig.kernel("alpha")
    backend = kernel.store.backend
    return [(name, backend.read_pointer(kernel.realm, name).head) for name in ("catalogs", "cat/1/heads/main")]


def _status(error: grpc.RpcError) -> Status:
    call: Any = error
    return Status.FromString(dict(call.trailing_metadata())["grpc-status-details-bin"])


def _detail(status: Status, kind: Any) -> Any:
    found = kind()
    assert any(detail.Unpack(found) for detail in status.details), kind.DESCRIPTOR.full_name
    return found


@pytest.mark.parametrize("said", TABLE)
def test_bad_input_has_its_status_and_details_and_changes_nothing(port: GrpcRig, owner: tuple[str, str], said: str) -> None:
    bad, before = TABLE[said], _heads(port)
    with pytest.raises(grpc.RpcError) as refused:
        port.call(_method(bad.method), bad.request, owner, ("x-correlation-id", "bad-1"))
    status, code = _status(refused.value), refused.value.code()
    info, own = _detail(status, error_details_pb2.ErrorInfo), _detail(status, common_pb2.Error)
    assert (code, info.reason, info.domain, own.correlation_id) == (bad.status, bad.reason, "headwater", "bad-1")
    if bad.status is INVALID:
        violations = _detail(status, error_details_pb2.BadRequest).field_violations
        assert violations and all(one.description for one in violations)
        assert bad.field in (None, violations[0].field)
    if bad.status is grpc.StatusCode.FAILED_PRECONDITION:
        assert _detail(status, error_details_pb2.PreconditionFailure).violations
    assert _heads(port) == before


def test_a_deadline_that_is_over_changes_nothing(port: GrpcRig, owner: tuple[str, str]) -> None:
    """Given to the pipeline itself: a client never sends a deadline that is over, and one that ends on the way is a race."""
    before, method = _heads(port), _method("NamespaceService/CreateNamespace")
    pipeline = Pipeline(Runtime(port.rig.service, port.rig.gate.budgets), method, RPCS[method.name])
    request = namespace_pb2.CreateNamespaceRequest(name=common_pb2.Name(catalog="lake", path=["late"]))
    context = call_context(method.name, [owner], "ipv4:127.0.0.1:5", 0.0, "late-1")
    with pytest.raises(RequestTooSlow) as refused:
        port.rig.run(pipeline.unary(context, receive_one(one_message(request)), lambda *_: None))
    assert (refused.value.grpc_status, refused.value.field) == ("DEADLINE_EXCEEDED", "deadline")
    assert _heads(port) == before


def test_a_message_over_the_limit_is_refused_before_it_is_read(port: GrpcRig, owner: tuple[str, str]) -> None:
    before = _heads(port)
    request = namespace_pb2.CreateNamespaceRequest(name=DB, properties={"much": "x" * (5 * 1024 * 1024)})
    assert port.status(_method("NamespaceService/CreateNamespace"), request, owner) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert _heads(port) == before


def test_a_realm_that_is_not_there_is_refused_as_one_that_is_not_the_callers(port: GrpcRig, owner: tuple[str, str]) -> None:
    request = catalog_pb2.ListCatalogsRequest()
    statuses = {
        port.status(_method("CatalogService/ListCatalogs"), request, owner, ("x-headwater-realm", realm))
        for realm in ("beta", "nowhere")
    }
    assert statuses == {grpc.StatusCode.PERMISSION_DENIED}


def test_a_key_runs_a_create_once_and_refuses_another_message(port: GrpcRig, owner: tuple[str, str]) -> None:
    method = _method("NamespaceService/CreateNamespace")

    def request(level: str) -> namespace_pb2.CreateNamespaceRequest:
        name = common_pb2.Name(catalog="lake", path=[level])
        return namespace_pb2.CreateNamespaceRequest(name=name, idempotency=common_pb2.Idempotency(key="once"))

    first = port.call(method, request("keyed"), owner)
    again = port.call(method, request("keyed"), owner)
    assert (first.meta.replayed, again.meta.replayed) == (False, True)
    assert first.namespace == again.namespace and first.meta.entry_id == again.meta.entry_id
    before = _heads(port)
    assert port.status(method, request("other"), owner) is grpc.StatusCode.FAILED_PRECONDITION
    assert _heads(port) == before


@pytest.mark.parametrize("method", [pytest.param(one, id=one.name.rpartition(".")[2]) for one in all_methods()])
def test_messages_that_are_mangled_never_find_a_defect(port: GrpcRig, owner: tuple[str, str], method: RpcMethod) -> None:
    """Well-formed messages with bytes replaced, cut off or put in, and bytes that are no message at all."""
    chance = random.Random(f"{FUZZ_SEED}{method.name}")
    whole = filled(
        method.request, catalog="lake", path=["db", "fuzz"], mask=["properties"], id="00" * 32, pointer="cat/1/heads/main"
    ).SerializeToString()
    found = []
    for _ in range(FUZZ_ROUNDS):
        raw = _mangled(whole, chance)
        status = port.status(method, raw, owner)
        if status in DEFECTS:
            found.append((status, raw))
    assert found == []


def _made_again(port: GrpcRig, owner: tuple[str, str]) -> None:
    """What random messages may have dropped."""
    port.status(_method("CatalogService/CreateCatalog"), catalog_pb2.CreateCatalogRequest(name="lake"), owner)
    for path in (["db"], ["db", "inner"]):
        name = common_pb2.Name(catalog="lake", path=path)
        port.status(_method("NamespaceService/CreateNamespace"), namespace_pb2.CreateNamespaceRequest(name=name), owner)
    table = table_pb2.CreateTableRequest(name=common_pb2.Name(catalog="lake", path=["db", "ada"]), schema=SCHEMA)
    port.status(_method("TableService/CreateTable"), table, owner)


@pytest.mark.parametrize("method", [pytest.param(one, id=one.name.rpartition(".")[2]) for one in all_methods()])
def test_random_messages_never_find_a_defect(port: GrpcRig, owner: tuple[str, str], method: RpcMethod) -> None:
    """Made from the descriptor, field by field: one that is added later is fuzzed too."""
    chance, found = random.Random(f"{FUZZ_SEED}{method.name}"), []
    for number in range(RANDOM_ROUNDS):
        if number % 50 == 0:
            _made_again(port, owner)
        message = random_message(method.request, chance)
        status = port.status(method, message, owner)
        if status in DEFECTS:
            found.append((status, message))
    assert found == []


@pytest.mark.parametrize("method", [pytest.param(one, id=one.name.rpartition(".")[2]) for one in PAGED])
def test_tokens_that_a_caller_has_made_up_never_find_a_defect(port: GrpcRig, owner: tuple[str, str], method: RpcMethod) -> None:
    """A token is no secret: this one is of the very method and filter, and only what is inside is wrong."""
    request = filled(method.request, catalog="lake", path=["db", "inner"], mask=[], id="00" * 32, pointer="cat/1/heads/main")
    but = STATES if method.name.endswith("/Diff") else ()
    for inner in ("", ":", "a:b", "1:x", "0:0:0", "\x00", "é" * 40, "W10", "gA", "k6JoaQ"):
        request.page.token = make_token(RpcToken(method.name, filter_of(request, but), inner))
        status = port.status(method, request, owner)
        assert status not in DEFECTS, (inner, status)


def _mangled(whole: bytes, chance: random.Random) -> bytes:
    raw = bytearray(whole or b"\x0a\x00")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(raw) + 1)
        match chance.randrange(4):
            case 0:
                raw[place:] = b""
            case 1:
                raw[place:place] = chance.randbytes(chance.randint(1, 8))
            case 2:
                raw[place : place + 1] = chance.randbytes(1)
            case _:
                raw = bytearray(chance.randbytes(chance.randint(0, 40)))
    return bytes(raw)


def test_what_the_table_refuses_is_taken_when_it_is_right(port: GrpcRig, owner: tuple[str, str]) -> None:
    """Else the table would prove nothing."""
    request = table_pb2.CreateTableRequest(name=common_pb2.Name(catalog="lake", path=["db", "right"]), schema=SCHEMA)
    before = _heads(port)
    assert port.status(_method("TableService/CreateTable"), request, owner) is grpc.StatusCode.OK
    assert _heads(port) != before
