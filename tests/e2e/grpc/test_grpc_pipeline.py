"""The stages of a call in their order, and what a call takes along: correlation, trace, language, a client's own headers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2

from headwater.consumers.clients.grpc_stream.grpc_transport import GrpcTransport
from headwater.schemas.errors import StoreUnavailable
from headwater.schemas.rpc import catalog_pb2, common_pb2, feed_pb2, namespace_pb2
from headwater.service.grpc import admission, grpc_server, pipeline
from headwater.service.grpc.call_context import CallContext
from headwater.service.grpc.grpc_metrics import GrpcCounts
from headwater.service.grpc.pipeline import Pipeline
from headwater.service.http.responses import header
from headwater.service.observability.logs import ACCESS
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, detail_of, grpc_rig

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-pipeline")) as made:
        yield made


class Recorder:
    """What began, in order, each once; and the contexts that the stages were given."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.contexts: list[CallContext] = []

    def began(self, stage: str, context: CallContext | None = None) -> None:
        if stage not in self.stages:
            self.stages.append(stage)
        if context is not None:
            self.contexts.append(context)


@pytest.fixture
def recorder(port: GrpcRig, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Around what each stage calls first."""
    _owner(port)  # asks over HTTP for a token, once
    found = Recorder()
    call_context, localized = grpc_server.call_context, pipeline.localized
    caller_of, once, handled = admission.caller_of, pipeline.once, Pipeline._handled
    metered, perf_counter = Pipeline._metered, pipeline.time.perf_counter

    def context(*given: Any) -> CallContext:
        made: CallContext = call_context(*given)
        found.began("context", made)
        return made

    def locale(given: CallContext, folder: str) -> CallContext:
        found.began("locale", given)
        return localized(given, folder)

    async def metering(self: Pipeline, given: CallContext, *rest: Any) -> bytes:
        found.began("metering", given)
        return await metered(self, given, *rest)

    def clock() -> float:
        if "locale" in found.stages:  # a stream is metered from its first line on
            found.began("metering")
        return perf_counter()

    async def access(service: Any, given: CallContext, **rest: Any) -> Any:
        found.began("access", given)
        return await caller_of(service, given, **rest)

    async def idempotency(*given: Any, **rest: Any) -> Any:
        found.began("idempotency")
        return await once(*given, **rest)

    async def handler(self: Pipeline, *given: Any) -> Any:
        found.began("handler")
        return await handled(self, *given)

    class Tracing:
        @contextmanager
        def request(self, scope: Any, route: str, request_id: str) -> Iterator[None]:
            found.began("tracing")
            yield

    monkeypatch.setattr(grpc_server, "call_context", context)
    monkeypatch.setattr(pipeline, "localized", locale)
    monkeypatch.setattr(Pipeline, "_metered", metering)
    monkeypatch.setattr(pipeline.time, "perf_counter", clock)
    monkeypatch.setattr(admission, "caller_of", access)
    monkeypatch.setattr(pipeline, "once", idempotency)
    monkeypatch.setattr(Pipeline, "_handled", handler)
    monkeypatch.setattr(port.rig.service, "tracing", Tracing())
    return found


def _owner(port: GrpcRig) -> tuple[str, str]:
    return bearer(port.rig.token("alpha"))


def _create(port: GrpcRig, level: str, *metadata: tuple[str, str], key: str = "") -> Any:
    request = namespace_pb2.CreateNamespaceRequest(
        name=common_pb2.Name(catalog="lake", path=[level]), idempotency=common_pb2.Idempotency(key=key)
    )
    return port.stub("NamespaceService").CreateNamespace.with_call(request, metadata=[_owner(port), *metadata])


def test_a_keyed_mutation_runs_through_all_stages_in_their_order(port: GrpcRig, recorder: Recorder) -> None:
    _create(port, "ordered", key="ordered-1")
    assert tuple(recorder.stages) == Pipeline.STAGES


def test_a_stream_runs_through_its_stages_in_their_order(port: GrpcRig, recorder: Recorder) -> None:
    request = feed_pb2.GetSnapshotRequest(source=feed_pb2.FeedSource(catalog="lake"))
    assert list(port.stub("FeedService").GetSnapshot(request, metadata=[_owner(port)]))
    assert tuple(recorder.stages) == Pipeline.STAGES[:5]


def test_stages_are_given_one_context_which_none_of_them_changes(port: GrpcRig, recorder: Recorder) -> None:
    _create(port, "same-context", ("accept-language", "de"), key="same-1")
    assert len({one.request_id for one in recorder.contexts}) == 1
    assert [one.locale for one in recorder.contexts] == ["en", "en", "de", "de"], "locale is known behind its stage"
    with pytest.raises(AttributeError):
        recorder.contexts[0].locale = "fr"  # type: ignore[misc]


def test_calls_are_counted_with_the_status_that_they_ended_with(port: GrpcRig, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[str, str]] = []
    monkeypatch.setattr(GrpcCounts, "add", lambda self, method, status, seconds: counted.append((method, status)))
    list_request = catalog_pb2.ListCatalogsRequest()
    port.stub("CatalogService").ListCatalogs(list_request, metadata=[_owner(port)])
    for refused, metadata in ((list_request, []), (catalog_pb2.GetCatalogRequest(name="absent"), [_owner(port)])):
        name = "ListCatalogs" if refused is list_request else "GetCatalog"
        with pytest.raises(grpc.RpcError):
            getattr(port.stub("CatalogService"), name)(refused, metadata=metadata)
    assert [status for _, status in counted] == ["OK", "UNAUTHENTICATED", "NOT_FOUND"]


def test_a_call_that_fails_leaves_a_line_in_the_log_in_any_case(
    port: GrpcRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As over HTTP: a call that is refused leaves none, unless all are logged."""

    async def fails(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("the store is away.")

    request = catalog_pb2.GetCatalogRequest(name="absent")
    ACCESS.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, logger=ACCESS.name), pytest.raises(grpc.RpcError):
            port.stub("CatalogService").GetCatalog(request, metadata=[_owner(port)])
        assert [one for one in caplog.records if one.name == ACCESS.name] == []
        monkeypatch.setattr(admission, "caller_of", fails)
        with caplog.at_level(logging.INFO, logger=ACCESS.name), pytest.raises(grpc.RpcError):
            port.stub("CatalogService").GetCatalog(request, metadata=[_owner(port), ("x-plan-id", "plan-1")])
    finally:
        ACCESS.removeHandler(caplog.handler)
    [line] = {id(one): one.__dict__ for one in caplog.records if one.name == ACCESS.name}.values()
    assert (line["status"], line["plan_id"]) == ("UNAVAILABLE", "plan-1")


def test_the_correlation_id_returns_in_headers_and_trailers_and_is_in_the_commit(port: GrpcRig) -> None:
    answer, call = _create(port, "correlated", ("x-correlation-id", "corr-7"))
    assert dict(call.initial_metadata())["x-correlation-id"] == dict(call.trailing_metadata())["x-correlation-id"] == "corr-7"
    change = port.rig.get(f"/feed/v1/alpha/commits/{answer.meta.version}", port.rig.token("alpha")).raise_for_status().json()
    assert "corr-7" in change["headers"].values()
    with pytest.raises(grpc.RpcError) as refused:
        _create(port, "correlated", ("x-correlation-id", "corr-8"))
    failed: Any = refused.value
    assert (
        dict(failed.initial_metadata())["x-correlation-id"] == dict(failed.trailing_metadata())["x-correlation-id"] == "corr-8"
    )


def test_a_call_without_a_correlation_id_gets_its_request_id_in_the_trailers(port: GrpcRig) -> None:
    _, call = _create(port, "uncorrelated")
    told = dict(call.trailing_metadata())
    assert told["x-correlation-id"] == told["x-request-id"] != ""
    request = feed_pb2.GetSnapshotRequest(source=feed_pb2.FeedSource(catalog="lake"))
    stream = port.stub("FeedService").GetSnapshot(request, metadata=[_owner(port)])
    assert dict(stream.initial_metadata())["x-request-id"], "a stream tells it before it ends"
    assert list(stream)


def test_messages_are_in_the_callers_language(port: GrpcRig) -> None:
    told = {}
    for language in ("en", "de-CH, fr;q=0.5", "tlh"):
        request = catalog_pb2.GetCatalogRequest(name="absent")
        with pytest.raises(grpc.RpcError) as refused:
            port.stub("CatalogService").GetCatalog(request, metadata=[_owner(port), ("accept-language", language)])
        message = detail_of(refused.value, error_details_pb2.LocalizedMessage)
        told[language] = (message.locale, message.message)
    assert told["en"] == told["tlh"] and told["en"][0] == "en"
    assert told["de-CH, fr;q=0.5"][0] == "de" and told["de-CH, fr;q=0.5"][1] != told["en"][1]


def test_our_own_client_sends_its_callers_headers_on(port: GrpcRig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CallContext] = []
    caller_of = admission.caller_of

    async def access(service: Any, context: CallContext, **rest: Any) -> Any:
        seen.append(context)
        return await caller_of(service, context, **rest)

    monkeypatch.setattr(admission, "caller_of", access)
    sent = {
        "authorization": _owner(port)[1],
        "x-correlation-id": "mirrored-1",
        "x-plan-id": "plan-1",
        "traceparent": TRACE,
        "accept-language": "de",
    }
    with httpx.Client(transport=GrpcTransport(port.url), base_url="http://grpc/manage/v1/alpha/") as client:
        client.get("catalogs", headers=sent).raise_for_status()
    context = seen[-1]
    assert (context.correlation_id, context.plan_id, context.locale) == ("mirrored-1", "plan-1", "de")
    assert header(context.scope, b"traceparent") == TRACE.encode()
