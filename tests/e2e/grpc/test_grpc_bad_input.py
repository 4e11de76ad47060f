"""Bad input over gRPC: the status and the details of the table in docs/grpc.md, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from headwater.schemas.errors import RequestTooSlow
from headwater.schemas.rpc import catalog_pb2, common_pb2, feed_pb2, namespace_pb2, table_pb2
from headwater.service.grpc.admission import receive_one
from headwater.service.grpc.call_context import call_context
from headwater.service.grpc.pipeline import Pipeline
from headwater.service.grpc.rpc_table import RPCS
from headwater.service.grpc.runtime import Runtime
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, detail_of, grpc_rig, method_named, one_message

DB = common_pb2.Name(catalog="lake", path=["db"])
BY_NAME = common_pb2.ContentRef(name=DB)
NO_KIND = common_pb2.ContentRef(id=common_pb2.ResourceId(kind=99, catalog_id=1, id="x"))  # type: ignore[arg-type]


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


def _heads(port: GrpcRig) -> list[tuple[str, bytes]]:
    kernel = port.rig.kernel("alpha")
    backend = kernel.store.backend
    return [(name, backend.read_pointer(kernel.realm, name).head) for name in ("catalogs", "cat/1/heads/main")]


@pytest.mark.parametrize("said", TABLE)
def test_bad_input_has_its_status_and_details_and_changes_nothing(port: GrpcRig, owner: tuple[str, str], said: str) -> None:
    bad, before = TABLE[said], _heads(port)
    with pytest.raises(grpc.RpcError) as refused:
        port.call(method_named(bad.method), bad.request, owner, ("x-correlation-id", "bad-1"))
    code = refused.value.code()
    info, own = detail_of(refused.value, error_details_pb2.ErrorInfo), detail_of(refused.value, common_pb2.Error)
    assert (code, info.reason, info.domain, own.correlation_id) == (bad.status, bad.reason, "headwater", "bad-1")
    if bad.status is INVALID:
        violations = detail_of(refused.value, error_details_pb2.BadRequest).field_violations
        assert violations and all(one.description for one in violations)
        assert bad.field in (None, violations[0].field)
    if bad.status is grpc.StatusCode.FAILED_PRECONDITION:
        assert detail_of(refused.value, error_details_pb2.PreconditionFailure).violations
    assert _heads(port) == before


def test_a_repeated_key_in_the_metadata_is_refused(port: GrpcRig, owner: tuple[str, str]) -> None:
    """As a token that comes twice is: nobody could say which of them counts."""
    before, request = _heads(port), namespace_pb2.CreateNamespaceRequest(name=common_pb2.Name(catalog="lake", path=["twice"]))
    with pytest.raises(grpc.RpcError) as refused:
        keys = (("idempotency-key", "one"), ("idempotency-key", "other"))
        port.call(method_named("NamespaceService/CreateNamespace"), request, owner, *keys)
    assert refused.value.code() is INVALID
    assert detail_of(refused.value, error_details_pb2.BadRequest).field_violations[0].field == "idempotency.key"
    assert _heads(port) == before


@pytest.mark.parametrize(
    ("name", "request_of", "field"),
    [
        ("FeedService/GetChanges", feed_pb2.GetChangesRequest(wait_seconds=-1.0), "wait_seconds"),
        ("FeedService/Subscribe", feed_pb2.SubscribeRequest(heartbeat_seconds=-1.0), "heartbeat_seconds"),
        ("FeedService/ListPointers", feed_pb2.ListPointersRequest(page=common_pb2.PageRequest(token="x")), "page.token"),
    ],
)
def test_a_violation_names_the_field_of_the_message(
    port: GrpcRig, owner: tuple[str, str], name: str, request_of: Any, field: str
) -> None:
    """Not the parameter of the HTTP sibling."""
    if "source" in request_of.DESCRIPTOR.fields_by_name:
        request_of.source.catalog = "lake"
    with pytest.raises(grpc.RpcError) as refused:
        port.call(method_named(name), request_of, owner)
    assert refused.value.code() is INVALID
    assert detail_of(refused.value, error_details_pb2.BadRequest).field_violations[0].field == field


def test_a_deadline_that_is_over_changes_nothing(port: GrpcRig, owner: tuple[str, str]) -> None:
    """Given to the pipeline itself: a client never sends a deadline that is over, and one that ends on the way is a race."""
    before, method = _heads(port), method_named("NamespaceService/CreateNamespace")
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
    assert port.status(method_named("NamespaceService/CreateNamespace"), request, owner) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert _heads(port) == before


def test_a_realm_that_is_not_there_is_refused_as_one_that_is_not_the_callers(port: GrpcRig, owner: tuple[str, str]) -> None:
    request = catalog_pb2.ListCatalogsRequest()
    statuses = {
        port.status(method_named("CatalogService/ListCatalogs"), request, owner, ("x-headwater-realm", realm))
        for realm in ("beta", "nowhere")
    }
    assert statuses == {grpc.StatusCode.PERMISSION_DENIED}


def test_a_key_runs_a_create_once_and_refuses_another_message(port: GrpcRig, owner: tuple[str, str]) -> None:
    method = method_named("NamespaceService/CreateNamespace")

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


def test_namespaces_are_listed_level_by_level_or_all_below(port: GrpcRig, owner: tuple[str, str]) -> None:
    port.rig.commit("alpha", ("tree",), ("tree", "a"), ("tree", "a", "deep"), ("tree", "b")).raise_for_status()
    method, found = method_named("NamespaceService/ListNamespaces"), {}
    for recursive in (False, True):
        token, paths = "", []
        while True:
            page = common_pb2.PageRequest(size=1, token=token)
            answer = port.call(
                method,
                namespace_pb2.ListNamespacesRequest(catalog="lake", path=["tree"], recursive=recursive, page=page),
                owner,
            )
            assert len(answer.namespaces) <= 1
            paths += [list(one.name.path) for one in answer.namespaces]
            token = answer.page.next_token
            if not token:
                break
        found[recursive] = paths
    assert found[False] == [["tree", "a"], ["tree", "b"]]
    assert found[True] == [["tree", "a"], ["tree", "a", "deep"], ["tree", "b"]]


def test_namespaces_are_listed_by_the_beginning_of_their_names(port: GrpcRig, owner: tuple[str, str]) -> None:
    keys = [("shelf",), *(("shelf", name) for name in ("ab", "abc", "b", "éa", "éb")), ("shelf", "abc", "b")]
    port.rig.commit("alpha", *keys).raise_for_status()
    method, found = method_named("NamespaceService/ListNamespaces"), {}
    for beginning, recursive in (("ab", False), ("ab", True), ("é", False), ("x", False)):
        request = namespace_pb2.ListNamespacesRequest(
            catalog="lake", path=["shelf"], name_prefix=beginning, recursive=recursive, page=common_pb2.PageRequest(size=1)
        )
        paths: list[list[str]] = []
        while not paths or request.page.token:
            answer = port.call(method, request, owner)
            paths += [list(one.name.path[1:]) for one in answer.namespaces]
            request.page.token = answer.page.next_token
            if not answer.namespaces:
                break
        found[beginning, recursive] = paths
    assert found == {
        ("ab", False): [["ab"], ["abc"]],
        ("ab", True): [["ab"], ["abc"], ["abc", "b"]],
        ("é", False): [["éa"], ["éb"]],
        ("x", False): [],
    }
    whole = namespace_pb2.ListNamespacesRequest(catalog="lake", name_prefix="she")
    assert [list(one.name.path) for one in port.call(method, whole, owner).namespaces] == [["shelf"]]


def test_a_valid_request_is_accepted(port: GrpcRig, owner: tuple[str, str]) -> None:
    """Else the table would prove nothing."""
    request = table_pb2.CreateTableRequest(name=common_pb2.Name(catalog="lake", path=["db", "right"]), schema=SCHEMA)
    before = _heads(port)
    assert port.status(method_named("TableService/CreateTable"), request, owner) is grpc.StatusCode.OK
    assert _heads(port) != before
