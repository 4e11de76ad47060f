"""OpenTelemetry spans of requests. Tracing costs nothing when disabled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra
from headwater.service.http.responses import Scope

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

SERVICE = "headwater"


class Tracing:
    """Spans of requests, children of the caller's where it sends `traceparent`."""

    def __init__(self, where: str) -> None:
        with needs_extra("tracing"):
            self._start(where)

    def _start(self, where: str) -> None:
        from opentelemetry import propagate, trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(resource=Resource.create({"service.name": SERVICE}))
        self._provider.add_span_processor(BatchSpanProcessor(_exporter(where)))
        self.tracer = self._provider.get_tracer(SERVICE)
        self._extract = propagate.extract
        self._kind = trace.SpanKind.SERVER

    @contextmanager
    def request(self, scope: Scope, route: str, request_id: str) -> Iterator[None]:
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        attributes = {"http.request.method": scope["method"], "http.route": route, "headwater.request_id": request_id}
        with self.tracer.start_as_current_span(
            f"{scope['method']} {route}", context=self._extract(carrier), kind=self._kind, attributes=attributes
        ):
            yield

    def close(self) -> None:
        self._provider.shutdown()


def _exporter(where: str) -> SpanExporter:
    """`stderr`, or `otlp`: then the OTEL_EXPORTER_OTLP_* variables say where to."""
    if where == "stderr":
        import sys

        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    if where != "otlp":
        raise InvalidInput(f"{where!r} is not a place for traces.", field="traces", remedy="Use 'otlp' or 'stderr'.")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
