"""OpenTelemetry spans of requests, from submission to outcome, and of reads, as children of the caller's span."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.commit.observer import Answered, outcome_of
from headwater.persistence.objects.observed_reads import Found
from headwater.schemas.extras import needs_extra

if TYPE_CHECKING:
    from headwater.persistence.store import Store

with needs_extra("tracing"):
    from opentelemetry import trace


class Spans:
    """An observer. Spans are called `headwater.commit`, `headwater.merge` and so on, after what the request wants to be."""

    def __init__(self, tracer: trace.Tracer | None = None) -> None:
        """The tracer of the configured provider, unless another is given."""
        self._tracer = tracer or trace.get_tracer("headwater")

    def opened(self, store: Store) -> None: ...

    def submitted(self, realm: str, pointer: str, request: CommitRequest) -> Answered:
        where = {"headwater.realm": realm, "headwater.pointer": pointer, "headwater.request_id": request.request_id}
        span = self._tracer.start_span(f"headwater.{request.kind}", attributes=where)

        def answered(future: Future[CommitOutcome]) -> None:
            _describe(span, future)
            span.end()

        return answered

    def landed(self, realm: str, pointer: str, entries: int) -> None: ...

    @contextmanager
    def reading(self, realm: str, read: str) -> Iterator[Found]:
        """Only inside a caller's span: background polling would otherwise create endless traces."""
        if not trace.get_current_span().get_span_context().is_valid:
            yield _ignore
            return
        with self._tracer.start_as_current_span(f"headwater.read.{read}", attributes={"headwater.realm": realm}) as span:
            yield partial(span.set_attribute, "headwater.rows")


def _ignore(found: int) -> None: ...


def _describe(span: trace.Span, future: Future[CommitOutcome]) -> None:
    span.set_attribute("headwater.outcome", outcome_of(future))
    if future.cancelled():
        return
    fault = future.exception()
    if fault is not None:
        span.record_exception(fault)
        span.set_status(trace.Status(trace.StatusCode.ERROR, str(fault)))
    elif (logged := future.result().logged) is not None:
        span.set_attribute("headwater.seq", logged.entry.seq)
        span.set_attribute("headwater.entry_id", logged.entry_id.hex())
