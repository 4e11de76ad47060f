"""Every gRPC method, as the descriptors list them, against messages and tokens that mean nothing: no defect is found."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2

from headwater.producer.page_tokens import make_token
from headwater.schemas.rpc import catalog_pb2, common_pb2, namespace_pb2, table_pb2
from headwater.schemas.rpc.services import RpcMethod, all_methods
from headwater.service.grpc.messages.paging import RpcToken, filter_of
from headwater.service.grpc.rpc_table import RPCS
from headwater.service.grpc.services.reference_rpcs import STATES
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, detail_of, filled, grpc_rig, method_named
from tests.support.fixtures.random_messages import random_message

DEFECTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
FUZZ_SEED = 17
FUZZ_ROUNDS = 6
RANDOM_ROUNDS = 500 if os.environ.get("HEADWATER_SOAK") else 8

PAGED = [one for one in all_methods() if "page" in one.request.DESCRIPTOR.fields_by_name]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-fuzzing")) as made:
        made.rig.commit("alpha", ("db",), ("db", "inner")).raise_for_status()
        yield made


@pytest.fixture(scope="module")
def owner(port: GrpcRig) -> tuple[str, str]:
    return bearer(port.rig.token("alpha"))


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
    port.status(method_named("CatalogService/CreateCatalog"), catalog_pb2.CreateCatalogRequest(name="lake"), owner)
    for path in (["db"], ["db", "inner"]):
        name = common_pb2.Name(catalog="lake", path=path)
        port.status(method_named("NamespaceService/CreateNamespace"), namespace_pb2.CreateNamespaceRequest(name=name), owner)
    table = table_pb2.CreateTableRequest(name=common_pb2.Name(catalog="lake", path=["db", "ada"]), schema=SCHEMA)
    port.status(method_named("TableService/CreateTable"), table, owner)


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
def test_made_up_page_tokens_never_find_a_defect(port: GrpcRig, owner: tuple[str, str], method: RpcMethod) -> None:
    """A token is no secret: this one is of the very method and filter, and only what is inside is wrong."""
    request = filled(method.request, catalog="lake", path=["db", "inner"], mask=[], id="00" * 32, pointer="cat/1/heads/main")
    but = STATES if method.name.endswith("/Diff") else ()
    for inner in ("", ":", "a:b", "1:x", "0:0:0", "\x00", "é" * 40, "W10", "gA", "k6JoaQ"):
        request.page.token = make_token(RpcToken(method.name, filter_of(request, but), inner))
        status = port.status(method, request, owner)
        assert status not in DEFECTS, (inner, status)


@pytest.mark.parametrize(
    "method", [pytest.param(one, id=one.name.rpartition(".")[2]) for one in PAGED if not RPCS[one.name].is_system]
)
def test_a_token_counts_for_the_method_and_the_filter_that_it_came_from(
    port: GrpcRig, owner: tuple[str, str], method: RpcMethod
) -> None:
    _made_again(port, owner)
    path = ["db", "ada" if "SnapshotService" in method.name else "inner"]
    request = filled(method.request, catalog="lake", path=path, mask=[], id="00" * 32, pointer="cat/1/heads/main")
    but = STATES if method.name.endswith("/Diff") else ()
    filter = filter_of(request, but)
    for token in (RpcToken(f"{method.name}s", filter, "x"), RpcToken(method.name, bytes(16), "x")):
        request.page.token = make_token(token)
        with pytest.raises(grpc.RpcError) as refused:
            port.call(method, request, owner)
        assert (refused.value.code(), _named_field(refused.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "page.token")


def _named_field(error: grpc.RpcError) -> str:
    field: str = detail_of(error, error_details_pb2.BadRequest).field_violations[0].field
    return field


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
