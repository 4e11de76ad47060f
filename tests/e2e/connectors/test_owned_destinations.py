"""Nobody but the connector writes below its destination, by whichever API, and nothing is half written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from headwater.producer.commits.operations import CatalogOperation, Put
from headwater.producer.connectors.connector_records import Connectors
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.schemas.rpc import common_pb2, connector_pb2, feed_pb2, namespace_pb2, table_pb2
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, grpc_rig
from tests.support.fixtures.iceberg_lake import table_body

REFERENCES = "/manage/v1/alpha/catalogs/lake/references"
MAIN = "/feed/v1/alpha/changes?catalog=lake&branch=main&after=latest"


class Attempt(NamedTuple):
    """A write, told where: below the destination it is refused, beside it the same one is not."""

    name: str
    act: Callable[[GrpcRig, str], httpx.Response | None]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("owned")) as made:
        made.rig.commit("alpha", ("free",), ("free", "a")).raise_for_status()
        made.rig.ask("POST", REFERENCES, token=root(made), json={"name": "before", "type": "branch"}).raise_for_status()
        made.rig.commit("alpha", ("branched",), ("branched", "old"), branch="before").raise_for_status()
        for name in ("owned", "branched"):
            request = body("up" if name == "owned" else name, name)
            made.rig.ask("POST", "/manage/v1/alpha/connectors", token=root(made), json=request).raise_for_status()
        write(made, Put(("owned",), Namespace()), Put(("owned", "a"), Namespace()), table("owned", "t"), table("free", "t"))
        yield made


def body(name: str, *path: str, **more: object) -> dict[str, object]:
    where = {"catalog": "lake", "path": list(path), "paused": True, "roots": ["s3://up/"]}
    return {"name": name, "source": "nessie", "uri": "https://nessie.example.com/api/v2", **where, **more}


def root(port: GrpcRig) -> str:
    return port.rig.token("alpha")


def write(port: GrpcRig, *operations: CatalogOperation) -> None:
    """As the connector does."""
    kernel = port.rig.kernel("alpha")
    connector = Connectors(kernel, {}).get("up")
    DestinationBranch(kernel, connector).commit(operations, Seen(version="1"), f"r{len(operations)}{operations[0]}"[:60])


def table(*key: str) -> Put:
    return Put(key, IcebergTable(metadata_location=f"s3://up/{'/'.join(key)}"))


def head(port: GrpcRig) -> str:
    found: str = port.rig.get(MAIN, root(port)).raise_for_status().json()["head"]["entry_id"]
    return found


def metadata_files(port: GrpcRig) -> list[Path]:
    """Of the catalog's own storage."""
    return sorted(one for one in port.rig.folder.rglob("*") if one.is_file())


# ── attempts ────────────────────────────────────────────────────────────────────────────────────────────────


def by_http(method: str, path: str, make_body: Callable[[str], Any] | None = None) -> Callable[[GrpcRig, str], httpx.Response]:
    def act(port: GrpcRig, where: str) -> httpx.Response:
        options = {} if make_body is None else {"json": make_body(where)}
        return port.rig.ask(method, path.replace("WHERE", where), token=root(port), **options)

    return act


def by_rpc(service: str, method: str, request: Callable[[str], Any]) -> Callable[[GrpcRig, str], None]:
    def act(port: GrpcRig, where: str) -> None:
        getattr(port.stub(service), method)(request(where), metadata=[bearer(root(port))])

    return act


def feed_operations(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"catalog": "lake", "operations": list(operations)}


def nessie_operations(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"commitMeta": {"message": "m"}, "operations": list(operations)}


def nessie_table(where: str) -> dict[str, Any]:
    key = {"elements": [where, "n"]}
    return {"type": "PUT", "key": key, "content": {"type": "ICEBERG_TABLE", "metadataLocation": "s3://up/n"}}


def name(*path: str) -> common_pb2.Name:
    return common_pb2.Name(catalog="lake", path=path)


def moved(where: str) -> Any:
    return namespace_pb2.UpdateNamespaceRequest(
        target=common_pb2.ContentRef(name=name(where, "a")),
        namespace=namespace_pb2.Namespace(name=name("free", f"from-{where}")),
        update_mask=FieldMask(paths=["name"]),
    )


NAMESPACE = {"properties": {"by": "hand"}}
NESSIE = "/api/v2/trees/main/history/commit"
ICEBERG = "/iceberg/v1/lake"
NAMESPACES = "/manage/v1/alpha/catalogs/lake/namespaces"
ATTEMPTS = [
    Attempt(
        "feed: put",
        by_http(
            "POST",
            "/feed/v1/alpha/commit",
            lambda where: feed_operations({"op": "put", "key": [where, "f"], "type": "NAMESPACE", "content": NAMESPACE}),
        ),
    ),
    Attempt(
        "feed: rename out of it",
        by_http(
            "POST",
            "/feed/v1/alpha/commit",
            lambda where: feed_operations({"op": "rename", "from_key": [where, "t"], "key": ["free", f"out-of-{where}"]}),
        ),
    ),
    Attempt("Nessie: put", by_http("POST", NESSIE, lambda where: nessie_operations(nessie_table(where)))),
    Attempt(
        "Nessie: delete",
        by_http("POST", NESSIE, lambda where: nessie_operations({"type": "DELETE", "key": {"elements": [where, "n"]}})),
    ),
    Attempt("Iceberg: create a table", by_http("POST", f"{ICEBERG}/namespaces/WHERE/tables", lambda _: table_body("i"))),
    Attempt(
        "Iceberg: create a namespace",
        by_http("POST", f"{ICEBERG}/namespaces", lambda where: {"namespace": [where, "j"], "properties": {}}),
    ),
    Attempt(
        "Iceberg: properties of a namespace",
        by_http("POST", f"{ICEBERG}/namespaces/WHERE/properties", lambda _: {"removals": [], "updates": {"by": "hand"}}),
    ),
    Attempt(
        "manage: a namespace",
        by_http("POST", NAMESPACES, lambda where: {"path": [where, "m"]}),
    ),
    Attempt(
        "gRPC: create a table",
        by_rpc("TableService", "CreateTable", lambda where: table_pb2.CreateTableRequest(name=name(where, "g"), schema=SCHEMA)),
    ),
    Attempt("gRPC: move a namespace out of it", by_rpc("NamespaceService", "UpdateNamespace", moved)),
    Attempt(
        "gRPC: commit",
        by_rpc(
            "FeedService",
            "Commit",
            lambda where: feed_pb2.CommitRequest(
                catalog="lake",
                operations=[feed_pb2.Operation(op="put", key=[where, "c"], type="NAMESPACE", content='{"properties": {}}')],
            ),
        ),
    ),
]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: one.name)
def test_a_write_below_a_destination_is_refused_and_one_next_to_it_is_not(port: GrpcRig, attempt: Attempt) -> None:
    if attempt.name == "Nessie: delete":
        write(port, table("owned", "n"), table("free", "n"))
    before, files = head(port), metadata_files(port)
    try:
        answer = attempt.act(port, "owned")
    except grpc.RpcError as refused:
        assert refused.code() is grpc.StatusCode.PERMISSION_DENIED, refused.details()
        assert "'up'" in refused.details()
    else:
        assert answer is not None and answer.status_code == 403, answer and answer.text
        assert "'up'" in answer.text
    assert head(port) == before and metadata_files(port) == files
    allowed = attempt.act(port, "free")
    assert allowed is None or allowed.is_success, allowed.text
    assert head(port) != before


ICEBERG_VIEW = {
    "name": "v",
    "schema": {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["owned"],
        "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "spark"}],
    },
    "properties": {},
}
CHANGED = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"by": "hand"}}]}
REAL = {"namespace": ["owned"], "name": "real"}
TO_REAL_TABLES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", f"{ICEBERG}/namespaces/owned/tables/real", CHANGED),
    ("DELETE", f"{ICEBERG}/namespaces/owned/tables/real?purgeRequested=true", None),
    ("POST", f"{ICEBERG}/tables/rename", {"source": REAL, "destination": {"namespace": ["free"], "name": "taken"}}),
    (
        "POST",
        f"{ICEBERG}/tables/rename",
        {"source": {"namespace": ["free"], "name": "mine"}, "destination": {"namespace": ["owned"], "name": "given"}},
    ),
    ("POST", f"{ICEBERG}/transactions/commit", {"table-changes": [{"identifier": REAL, **CHANGED}]}),
    ("POST", f"{ICEBERG}/namespaces/owned/register", {"name": "twice", "metadata-location": "SPARE"}),
    ("POST", f"{ICEBERG}/namespaces/owned/tables", {**table_body("staged"), "stage-create": True}),
    ("POST", f"{ICEBERG}/namespaces/owned/views", ICEBERG_VIEW),
    ("DELETE", f"{ICEBERG}/namespaces/owned%1Fa", None),
    ("DELETE", f"{NAMESPACES}/owned%1Fa", None),
]


@pytest.fixture(scope="module")
def locations(port: GrpcRig) -> dict[str, str]:
    """A table of this server beside the destination, one that the connector has taken over, and one that is nowhere."""
    found = {}
    for name in ("mine", "real", "spare"):
        made = port.rig.ask("POST", f"{ICEBERG}/namespaces/free/tables", token=root(port), json=table_body(name))
        found[name] = made.raise_for_status().json()["metadata-location"]
    for name in ("real", "spare"):
        port.rig.ask("DELETE", f"{ICEBERG}/namespaces/free/tables/{name}", token=root(port)).raise_for_status()
    write(port, Put(("owned", "real"), IcebergTable(metadata_location=found["real"])))
    return found


@pytest.mark.parametrize(("method", "path", "body"), TO_REAL_TABLES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_real_table_below_a_destination_is_read_and_nothing_more(
    port: GrpcRig, locations: dict[str, str], method: str, path: str, body: dict[str, Any] | None
) -> None:
    assert port.rig.get(f"{ICEBERG}/namespaces/owned/tables/real", root(port)).status_code == 200
    before, files = head(port), metadata_files(port)
    options = {} if body is None else {"json": json.loads(json.dumps(body).replace("SPARE", locations["spare"]))}
    answer = port.rig.ask(method, path, token=root(port), **options)
    assert answer.status_code == 403 and "'up'" in answer.text, answer.text
    assert head(port) == before and metadata_files(port) == files


BRANCHES = [
    ("PUT", f"{REFERENCES}/branch/main", {"target": "before"}),
    ("POST", "/manage/v1/alpha/catalogs/lake/merge", {"source": "before", "into": "main"}),
    ("POST", "/manage/v1/alpha/catalogs/lake/transplant", {"commits": ["BEFORE"], "into": "main"}),
    ("PUT", "/api/v2/trees/main@HEAD", {"type": "BRANCH", "name": "before", "hash": "BEFORE"}),
    ("POST", "/api/v2/trees/main@HEAD/history/merge", {"fromRefName": "before", "fromHash": "BEFORE"}),
    (
        "POST",
        "/api/v2/trees/main@HEAD/history/transplant",
        {"fromRefName": "before", "hashesToTransplant": ["BEFORE"], "message": "m"},
    ),
    ("DELETE", "/manage/v1/alpha/catalogs/lake?require_empty=false", None),
]


@pytest.mark.parametrize(("method", "path", "body"), BRANCHES, ids=lambda one: one if isinstance(one, str) else "")
def test_moves_and_merges_of_branches_do_not_reach_below_a_destination(
    port: GrpcRig, method: str, path: str, body: dict[str, Any] | None
) -> None:
    before = port.rig.get(f"{REFERENCES}/branch/before", root(port)).json()["commit_id"]
    main = port.rig.get(f"{REFERENCES}/branch/main", root(port)).json()["commit_id"]
    text = json.dumps(body).replace("BEFORE", before)
    options = {} if body is None else {"json": json.loads(text)}
    answer = port.rig.ask(method, path.replace("HEAD", main), token=root(port), **options)
    assert answer.status_code == 403 and "connector '" in answer.text, answer.text
    assert port.rig.get(f"{REFERENCES}/branch/main", root(port)).json()["commit_id"] == main


def test_destinations_do_not_overlap_whichever_api_creates_the_second(port: GrpcRig) -> None:
    for path in ((), ("owned",), ("owned", "below")):
        made = port.rig.ask("POST", "/manage/v1/alpha/connectors", token=root(port), json=body("second", *path))
        assert made.status_code == 409 and made.json()["field"] == "path", made.text
        connector = connector_pb2.Connector(**{name: one for name, one in body("second", *path).items() if name != "paused"})
        with pytest.raises(grpc.RpcError) as refused:
            port.stub("ConnectorService").CreateConnector(
                connector_pb2.CreateConnectorRequest(connector=connector), metadata=[bearer(root(port))]
            )
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION and "overlaps" in refused.value.details()
