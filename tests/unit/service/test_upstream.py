"""A source that is slow, endless or answers nonsense: a typed error, and the connector's slot is free again."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx
import msgspec
import pytest
import zstandard

from headwater.producer.connectors.source_spi import ConnectorSpec
from headwater.schemas.errors import HeadwaterError, SourceRefused, SourceUnreachable
from headwater.service.reconciling.sources.feed_source import FeedSource
from headwater.service.reconciling.sources.iceberg_source import IcebergSource
from headwater.service.reconciling.sources.nessie_source import NessieSource
from headwater.service.reconciling.sources.upstream import ANSWER_BYTES_MAX, ANSWER_SECONDS_MAX, Upstream

HOST = "http://catalog.example.com"


class Once(httpx.SyncByteStream):
    """A body that comes in one piece, and that httpx does not unpack by itself when the answer is made."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content


def upstream(answer: Callable[[httpx.Request], httpx.Response], monotonic: Callable[[], float] = lambda: 0.0) -> Upstream:
    def streamed(request: httpx.Request) -> httpx.Response:
        """As from a connection: nothing is read or unpacked before it is asked for."""
        made = answer(request)
        if made.is_stream_consumed:
            made = httpx.Response(made.status_code, headers=made.headers, stream=Once(made.content))
        return made

    client = httpx.Client(transport=httpx.MockTransport(streamed))
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


def test_a_listing_of_empty_pages_that_never_repeat_is_refused() -> None:
    numbers = count()

    def answer(request: httpx.Request) -> httpx.Response:
        page = {"logEntries": [], "entries": [], "hasMore": True, "token": f"t{next(numbers)}"}
        page |= {"namespaces": [], "next-page-token": page["token"], "next_token": page["token"], **_HEAD}
        return httpx.Response(200, json={**page, "at": {"seq": 1, "entry_id": "ab"}})

    nessie = NessieSource(upstream(answer), spec("nessie"), b"")
    iceberg = IcebergSource(upstream(answer), spec("iceberg-rest", prefix="p"), b"")
    feed = FeedSource(upstream(answer), spec("headwater", catalog="c"), b"")
    for listing in (nessie.changes("00"), nessie.state().contents, iceberg.namespaces(), feed.state().contents):
        with pytest.raises(SourceRefused, match="does not go on"):
            list(listing)


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("gzip", gzip.compress(bytes(2**29), 9)),
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(2**29), 9), 9)),
        ("zstd", zstandard.compress(bytes(2**29), 19)),
    ],
    ids=["gzip", "twice", "zstd"],
)
def test_an_answer_that_unpacks_to_more_than_fits_is_never_unpacked_whole(encoding: str, content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SourceRefused):
            upstream(lambda request: httpx.Response(200, headers={"content-encoding": encoding}, content=Once(content))).get(
                "/"
            )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * ANSWER_BYTES_MAX


def test_a_gzip_answer_is_read_and_one_that_is_cut_off_is_not() -> None:
    packed = gzip.compress(b'{"reference": {"hash": "ab"}}')

    def answered(content: bytes) -> NessieSource:
        headers = {"content-encoding": "gzip"}
        answer = upstream(lambda request: httpx.Response(200, headers=headers, content=Once(content)))
        return NessieSource(answer, spec("nessie"), b"")

    answered(packed).check()
    for content in (packed[:-9], b"plain"):
        with pytest.raises(SourceRefused, match="gzip"):
            answered(content).check()


def test_a_redirect_is_not_followed() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers={"location": "http://169.254.169.254/latest/meta-data"})

    with pytest.raises(HeadwaterError, match="302"):
        upstream(answer).read("/v1/config", msgspec.Raw)
    assert asked == ["http://203.0.112.1/v1/config"], "only the address that was checked"
