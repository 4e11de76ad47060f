"""A source that is slow, endless or answers nonsense: a typed error, and the connector's slot is free again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx
import msgspec
import pytest

from headwater.producer.connectors.source_spi import ConnectorSpec
from headwater.schemas.errors import HeadwaterError, SourceRefused, SourceUnreachable
from headwater.service.reconciling.sources.feed_source import FeedSource
from headwater.service.reconciling.sources.iceberg_source import IcebergSource
from headwater.service.reconciling.sources.nessie_source import NessieSource
from headwater.service.reconciling.sources.upstream import ANSWER_SECONDS_MAX, Upstream

HOST = "http://catalog.example.com"


def upstream(answer: Callable[[httpx.Request], httpx.Response], monotonic: Callable[[], float] = lambda: 0.0) -> Upstream:
    client = httpx.Client(transport=httpx.MockTransport(answer))
    return Upstream(
        HOST, private_hosts=frozenset(), client=client, resolve=lambda host, port: ["203.0.112.1"], monotonic=monotonic
    )


def said(**body: Any) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(200, json=body)


def spec(source: str, **properties: str) -> ConnectorSpec:
    return ConnectorSpec(source=source, uri=HOST, properties=properties, secret_ref="", roots=("s3://lake/",))


def test_an_answer_that_arrives_too_slowly_is_aborted() -> None:
    ticks = count(step=ANSWER_SECONDS_MAX / 3)

    def drip() -> Iterator[bytes]:
        while True:
            yield b" "

    slow = upstream(lambda request: httpx.Response(200, content=drip()), lambda: next(ticks))
    with pytest.raises(SourceUnreachable, match="took longer"):
        slow.get("/v1/config")


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"", b"null", b'{"reference": {"hash": 1}}'])
def test_nonsense_is_an_error_of_the_source(content: bytes) -> None:
    source = NessieSource(upstream(lambda request: httpx.Response(200, content=content)), spec("nessie"), b"")
    with pytest.raises(SourceRefused):
        source.check()


def _nessie() -> Iterator[Any]:
    def answer(request: httpx.Request) -> httpx.Response:
        page = {"logEntries": [], "entries": [], "hasMore": True, "token": "again"}
        return httpx.Response(200, json=page if b"main%40" in request.url.raw_path or b"@" in request.url.raw_path else _HEAD)

    source = NessieSource(upstream(answer), spec("nessie"), b"")
    yield from (source.changes("00"), source.state().contents)


_HEAD = {"reference": {"hash": "ab"}}


def test_a_listing_that_never_ends_is_refused() -> None:
    iceberg = IcebergSource(
        upstream(said(namespaces=[], identifiers=[], **{"next-page-token": "again"})), spec("iceberg-rest", prefix="p"), b""
    )
    feed = FeedSource(
        upstream(said(at={"seq": 1, "entry_id": "ab"}, entries=[], next_token="again")), spec("headwater", catalog="c"), b""
    )
    for listing in (iceberg.namespaces(), iceberg.tables(("db",)), feed.state().contents, *_nessie()):
        with pytest.raises(SourceRefused, match="does not go on"):
            list(listing)


def test_a_redirect_is_not_followed() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers={"location": "http://169.254.169.254/latest/meta-data"})

    with pytest.raises(HeadwaterError, match="302"):
        upstream(answer).read("/v1/config", msgspec.Raw)
    assert asked == ["http://203.0.112.1/v1/config"], "only the address that was checked"
