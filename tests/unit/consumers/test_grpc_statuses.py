"""An error that crosses gRPC is the same error on the other side."""

from __future__ import annotations

from typing import Any

import grpc
import httpx
import pytest

from headwater.consumers.clients.feed_http import problem_error
from headwater.consumers.clients.grpc_stream.statuses import STATUS_DETAILS, problem_of
from headwater.schemas.errors import CommitConflict, CursorExpired, Fact, FeedUnreachable, HeadwaterError
from headwater.service.errors.translations import error_kinds
from headwater.service.grpc.call_context import call_context
from headwater.service.grpc.grpc_errors import internal_status, status_code, status_of

CONTEXT = call_context("io.headwater.Some/Thing", [], "ipv4:127.0.0.1:5", None, "r-1")


class _Refusal(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str, status: bytes | None = None) -> None:
        super().__init__()
        self._code, self._details, self._status = code, details, status

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, Any], ...]:
        return () if self._status is None else ((STATUS_DETAILS, self._status),)


def _crossed(error: HeadwaterError) -> HeadwaterError:
    status = status_of(error, CONTEXT)
    return problem_error(problem_of(_Refusal(status_code(error), status.message, status.SerializeToString())))


@pytest.mark.parametrize("kind", sorted(error_kinds(), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_every_error_keeps_its_code_field_and_remedy(kind: type[HeadwaterError]) -> None:
    crossed = _crossed(kind("it is wrong.", field="place", remedy="Mend it."))
    assert (crossed.code, crossed.retriable, crossed.field) == (kind.code, kind.retriable, "place")
    assert crossed.remedy == "Mend it."


def test_facts_keep_their_types_and_conflicts_their_first_twenty() -> None:
    expired = _crossed(CursorExpired("gone.", oldest=5, head=9))
    assert (expired.facts["oldest"], expired.facts["head"]) == (5, 9)
    conflicts: list[Fact] = [{"kind": "KEY_EXISTS", "key": [f"k{n}"], "message": "m"} for n in range(30)]
    assert _crossed(CommitConflict("no.", conflicts=conflicts)).facts["conflicts"] == conflicts[:20]


def test_an_answer_that_no_server_sent_is_a_transport_error() -> None:
    unmade = _Refusal(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses")
    with pytest.raises(httpx.ConnectError):
        problem_of(unmade)
    for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        with pytest.raises(httpx.ReadError):
            problem_of(_Refusal(code, "Socket closed"))
    with pytest.raises(httpx.ReadTimeout):
        problem_of(_Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))


def test_an_answer_of_a_proxy_is_recognized_by_its_status() -> None:
    assert isinstance(problem_error(problem_of(_Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "much"))), FeedUnreachable)
    inside = problem_of(_Refusal(grpc.StatusCode.INTERNAL, "no", internal_status(CONTEXT).SerializeToString()))
    assert (inside.status, inside.code) == (500, "INTERNAL")
