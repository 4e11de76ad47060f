"""The audit log: switched per service, the same by HTTP and gRPC, without secrets; and the log file that workers share."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from headwater.schemas.rpc import catalog_pb2, common_pb2, feed_pb2, namespace_pb2, tenant_pb2
from headwater.service.observability.audit import AUDIT, audited_services
from headwater.service.observability.logs import JsonLines, TextLines
from tests.support.fixtures.access_rig import Rig
from tests.support.fixtures.cli_runs import headwater
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig
from tests.support.servers.feed_server import feed_server

MARK = "marked-4711"
"""In bodies, queries and headers; in no line."""
IN_PATH = "marked-path"
"""Of an unknown path, which is in the log of requests, and in no line of the audit log."""
REQUESTS = 120


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("audited"), audited=audited_services("manage NamespaceService")) as made:
        yield made


@pytest.fixture(scope="module")
def port_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    audited = audited_services("all")
    with grpc_rig(tmp_path_factory.mktemp("all"), audited=audited, log_requests=True) as made:
        yield made


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What the audit log gets, as JSON."""
    found: list[dict[str, Any]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(JsonLines().format(record)))

    handler, level = Kept(), AUDIT.level
    AUDIT.addHandler(handler)
    AUDIT.setLevel(logging.INFO)
    yield found
    AUDIT.removeHandler(handler)
    AUDIT.setLevel(level)


def _create(port: GrpcRig, *path: str, token: str, **options: Any) -> Any:
    request = namespace_pb2.CreateNamespaceRequest(name=common_pb2.Name(catalog="lake", path=path), **options)
    metadata = [bearer(token), ("x-correlation-id", f"made-{path[-1]}")]
    return port.stub("NamespaceService").CreateNamespace(request, metadata=metadata)


def _catalogs(rig: Rig, **options: Any) -> httpx.Response:
    return rig.get("/manage/v1/alpha/catalogs/lake", **options)


def test_calls_of_an_http_api_are_audited_where_it_is_switched_on(port: GrpcRig, lines: list[dict[str, Any]]) -> None:
    rig = port.rig
    headers = {"x-correlation-id": "job-1", "x-request-id": "r-1"}
    assert _catalogs(rig, token=rig.token("alpha"), headers=headers).status_code == 200
    assert rig.get("/feed/v1/alpha/pointers", rig.token("alpha")).status_code == 200  # not switched on
    assert _catalogs(rig, headers={"x-request-id": "r-2"}).status_code == 401
    assert rig.get("/manage/v1/alpha/nothing").status_code == 404
    allowed, refused, unknown = [one for one in lines if "tokens" not in one["route"]]
    shown = {name: allowed[name] for name in ("service", "method", "status", "principal", "realm", "peer", "names")}
    assert shown == {
        "service": "manage",
        "method": "GET",
        "status": 200,
        "principal": "root",
        "realm": "alpha",
        "peer": "127.0.0.1",
        "names": {"realm": "alpha", "catalog": "lake"},
    }
    assert (allowed["correlation_id"], allowed["request_id"], allowed["logger"]) == ("job-1", "r-1", "headwater.audit.calls")
    assert allowed["seconds"] > 0
    assert (refused["status"], refused["correlation_id"], "principal" in refused) == (401, "r-2", False)
    assert (unknown["status"], unknown["route"], "path" in unknown) == (404, "unknown", False)


def test_calls_of_a_grpc_service_are_audited_where_it_is_switched_on(port: GrpcRig, lines: list[dict[str, Any]]) -> None:
    token = port.rig.token("alpha")
    once = common_pb2.Idempotency(key="once")
    _create(port, "db", token=token)
    port.stub("CatalogService").ListCatalogs(catalog_pb2.ListCatalogsRequest(), metadata=[bearer(token)])  # not switched on
    for _ in range(2):  # the second is answered from what was kept
        with pytest.raises(grpc.RpcError):
            _create(port, "absent", "inner", token=token, idempotency=once)
    with pytest.raises(grpc.RpcError):
        _create(port, "nobody", token="none")
    made, absent, again, nobody = [one for one in lines if one["service"] != "manage"]
    assert {name: made[name] for name in ("service", "method", "status", "principal", "realm", "correlation_id")} == {
        "service": "NamespaceService",
        "method": "CreateNamespace",
        "status": "OK",
        "principal": "root",
        "realm": "alpha",
        "correlation_id": "made-db",
    }
    assert made["names"]["realm"] == "alpha" and made["seconds"] > 0
    assert absent["status"] == again["status"] != "OK" and absent["principal"] == "root"
    assert (nobody["status"], nobody["correlation_id"], "principal" in nobody) == ("UNAUTHENTICATED", "made-nobody", False)


def test_streams_are_audited_when_they_end(port_of_all: GrpcRig, lines: list[dict[str, Any]]) -> None:
    request = feed_pb2.GetSnapshotRequest(source=feed_pb2.FeedSource(catalog="lake"))
    assert list(port_of_all.stub("FeedService").GetSnapshot(request, metadata=[bearer(port_of_all.rig.token("alpha"))]))
    streamed = [one for one in lines if one["service"] == "FeedService"]
    assert [(one["method"], one["status"], one["principal"]) for one in streamed] == [("GetSnapshot", "OK", "root")]


def test_no_line_has_a_secret_a_token_or_a_body(port_of_all: GrpcRig, lines: list[dict[str, Any]]) -> None:
    """Every line of the process, as JSON and as text, while secrets are made, sent, guessed and refused."""
    port, rig, text = port_of_all, port_of_all.rig, io.StringIO()
    handlers = [logging.StreamHandler(text), logging.StreamHandler(text)]
    root, level = logging.getLogger(), logging.getLogger().level
    for handler, formatter in zip(handlers, (JsonLines(), TextLines()), strict=True):
        handler.setFormatter(formatter)
        handler.addFilter(lambda record: record.name.startswith("headwater"))  # not what the test itself asks with
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        secrets = _use_secrets(port)
    finally:
        root.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)
    services = {one["service"] for one in lines}
    assert {"manage", "feed", "root", "TokenService", "NamespaceService", "FeedService"} <= services
    written = text.getvalue()
    assert "headwater.audit.calls" in written and rig.roots["alpha"].client_id
    assert [one for one in secrets if one in written] == []
    assert IN_PATH in written and IN_PATH not in json.dumps(lines)


def _use_secrets(port: GrpcRig) -> list[str]:
    rig = port.rig
    owner = rig.roots["alpha"]
    token = rig.token_answer("alpha", owner).json()["access_token"]
    body = {"name": "robot", "properties": {"note": MARK}}
    made = rig.ask("POST", "/manage/v1/alpha/principals", token=token, json=body)
    assert made.status_code == 201, made.text
    secret = made.json()["credentials"]["client_secret"]
    wrong = f"{token[:-8]}{MARK}"
    assert rig.get(f"/feed/v1/alpha/pointers?{MARK}={MARK}", token).status_code == 400
    assert rig.get("/feed/v1/alpha/pointers", wrong).status_code == 401
    assert rig.get(f"/{IN_PATH}", token, headers={"x-request-id": "unknown-1"}).status_code == 404
    assert rig.get("/livez", headers={"x-note": MARK, "cookie": MARK}).status_code == 200
    asked = tenant_pb2.CreateTokenRequest(client_id=owner.client_id, client_secret=owner.client_secret)
    given = port.stub("TokenService").CreateToken(asked).access_token
    for bad in (
        lambda: port.stub("TokenService").CreateToken(
            tenant_pb2.CreateTokenRequest(client_id=owner.client_id, client_secret=MARK)
        ),
        lambda: _create(port, "db", token=wrong),
        lambda: port.stub("FeedService").Commit(
            feed_pb2.CommitRequest(catalog="lake", message=MARK, operations=[feed_pb2.Operation(op=MARK, key=["a"])]),
            metadata=[bearer(token), ("x-note", MARK)],
        ),
    ):
        with pytest.raises(grpc.RpcError):
            bad()
    _create(port, "db", token=given, properties={"note": MARK})
    return [owner.client_secret, secret, token, given, wrong, MARK]


def test_workers_share_a_log_file_that_is_rotated(tmp_path: Path) -> None:
    """Every audited request is one whole line of one of the files."""
    folder = tmp_path / "logs"
    folder.mkdir()
    settings = {
        "log_file": folder / "server.log",
        "log_file_bytes": 4_096,
        "log_files": 1_000,
        "audit_log": "root",
    }
    ids = [f"asked-{number}" for number in range(REQUESTS)]
    with feed_server(f"sqlite:///{tmp_path / 'lake.db'}", "--workers", "2", settings=settings) as server:
        for id in ids:  # each over a connection of its own: both workers answer
            httpx.get(f"{server.url}/livez", headers={"x-request-id": id}, timeout=30).raise_for_status()
    files = list(folder.iterdir())
    assert len(files) > 5 and max(file.stat().st_size for file in files) <= 4_096
    written = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [one["message"] for one in written].count("serving") == 2
    audited = [one["request_id"] for one in written if one["logger"] == "headwater.audit.calls"]
    assert sorted(id for id in audited if id.startswith("asked-")) == sorted(ids)


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("log_file=nowhere/server.log", "log_file"),
        ("log_file=/", "log_file"),
        ("log_file_bytes=100", "log_file_bytes"),
        ("log_file_bytes=much", "log_file_bytes"),
        ("log_files=0", "log_files"),
        ("audit_log=manage,feed", "audit_log"),
        ("audit_log=Nothing", "audit_log"),
    ],
)
def test_a_bad_value_is_one_line_that_names_its_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, field: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert field in headwater("--set", setting, "serve", "--dev", "--store", f"sqlite:///{tmp_path / 'lake.db'}").error
    assert list(tmp_path.iterdir()) == []
