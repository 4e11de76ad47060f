"""Builds queries of the HTTP feed for clients, and turns pages and problems into frames and errors. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import httpx
import msgspec

from headwater.consumers.clients.transport import Received
from headwater.schemas.change import KeyPath
from headwater.schemas.cursor import decode_cursor
from headwater.schemas.errors import (
    Conflict,
    CursorExpired,
    Fact,
    FeedUnreachable,
    HeadwaterError,
    InvalidInput,
    NotFound,
    errors_by_code,
)
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.frame import Frame
from headwater.schemas.http.feed_json import FeedPage, Problem, Range
from headwater.schemas.whole_numbers import whole_number

PAGE_CHANGES = 500
CONNECT_SECONDS = 5.0
SILENT_SECONDS = 15.0
"""How long a server may take to answer beyond the wait that was requested: an idle connection is not dead, a silent one is."""
CERTIFICATE_REFUSED = "CERTIFICATE_VERIFY_FAILED"
LEVEL_SEPARATOR = "\x1f"

Query = list[tuple[str, str | int | float | bool | None]]

_decode_page = msgspec.json.Decoder(FeedPage).decode
_decode_problem = msgspec.json.Decoder(Problem).decode


class FeedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Which feed is read: the pointers of a realm of a server, minus what the filter hides."""

    server: str
    """Its address, e.g. http://127.0.0.1:8181."""
    realm: str = "default"
    pointers: tuple[str, ...] = ()
    filter: Filter = NO_FILTER
    token: str = ""
    """Sent as bearer token, if the server requires one."""

    def url(self, path: str) -> str:
        return f"{self.server.rstrip('/')}/feed/v1/{quote(self.realm, safe='')}/{path}"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def query(self, after: str) -> Query:
        pointers: Query = [("pointer", name) for name in self.pointers]
        return [*pointers, ("after", after), *filter_query(self.filter)]


def filter_query(filter: Filter) -> Query:
    many: Sequence[tuple[str, Sequence[str]]] = (
        ("kind", filter.kinds),
        ("op", filter.operations),
        ("type", filter.types),
        ("content_id", filter.content_ids),
    )
    query: Query = [(name, str(value)) for name, values in many for value in values]
    return [*query, ("prefix", _prefix_text(filter.prefix))] if filter.prefix else query


def _prefix_text(prefix: KeyPath) -> str:
    """⚠ A level that contains a dot would be read as two levels: refused, rather than answered with another feed."""
    if len(prefix) == 1 and "." in prefix[0]:
        raise InvalidInput(f"{prefix[0]!r} cannot be sent as one level.", field="prefix", remedy="Filter by a level below it.")
    return LEVEL_SEPARATOR.join(prefix)


def timeout(wait_seconds: float = 0.0, silent_seconds: float = SILENT_SECONDS) -> httpx.Timeout:
    return httpx.Timeout(wait_seconds + silent_seconds, connect=CONNECT_SECONDS)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def received_of(body: bytes | str, target: FeedTarget) -> Received:
    """A page as frames; anything that is not a page did not come from a feed."""
    try:
        page = _decode_page(body)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"{target.server} answers with something that is not a page: {error}.",
            field="server",
            remedy="Check the address, and that client and server are of versions that go together.",
        ) from error
    return Received(frames=tuple(_frames(page, target)), cursor=page.cursor, heads=_heads(page, target))


def _frames(page: FeedPage, target: FeedTarget) -> Iterator[Frame]:
    # A cursor carries its own filter; it is used if the request has none.
    is_filtered = page.withheld or not target.filter.asks_for_all or not decode_cursor(page.cursor).filter.asks_for_all
    ranges: Mapping[str, Range] = page.ranges or {}
    if page.range is not None:
        ranges = {_only_pointer(page, target): page.range}
    for pointer, range_ in ranges.items():
        yield Frame(
            pointer=pointer,
            from_seq=range_.from_,
            to_seq=range_.to,
            changes=tuple(change for change in page.changes if change.pointer == pointer),
            filtered=is_filtered,
        )


def _heads(page: FeedPage, target: FeedTarget) -> dict[str, int]:
    if page.head is not None:
        return {_only_pointer(page, target): page.head.seq}
    return {pointer: head.seq for pointer, head in (page.heads or {}).items()}


def _only_pointer(page: FeedPage, target: FeedTarget) -> str:
    return page.changes[0].pointer if page.changes else target.pointers[0]


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> HeadwaterError:
    """The server's own error, with the type it had there."""
    try:
        return problem_error(_decode_problem(body), _retry_after(headers))
    except msgspec.DecodeError:
        said = body[:200].decode(errors="replace")
        error = _by_status(status)(f"the server answered {status}: {said}")
        error.facts |= _retry_after(headers)
        return error


def problem_error(problem: Problem, retry_after: Mapping[str, Fact] | None = None) -> HeadwaterError:
    kind = errors_by_code().get(problem.code) or _by_status(problem.status)
    facts: dict[str, Fact] = dict(problem.facts)
    if problem.snapshot_url is not None:
        facts["snapshot_url"] = problem.snapshot_url
    error = kind(problem.detail, field=problem.field, remedy=problem.remedy)
    error.facts |= facts | dict(retry_after or {})
    return error


def unreachable(server: str, error: httpx.TransportError) -> HeadwaterError:
    """`sent` says whether the server may have seen the request. An untrusted certificate is not worth a retry."""
    if CERTIFICATE_REFUSED in str(error):
        return InvalidInput(
            f"the certificate of {server} is not trusted: {str(error).partition(CERTIFICATE_REFUSED)[2].lstrip('] ')}",
            field="ca",
            remedy="Name a file with the certificates to trust: --ca FILE, or ca= in a program.",
        )
    return FeedUnreachable(
        f"{server}: {type(error).__name__} {error}".strip(),
        field="server",
        remedy="Check that it runs and that the address is right.",
        sent=not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout),
    )


def _by_status(status: int) -> type[HeadwaterError]:
    if status >= 500 or status == 429:
        return FeedUnreachable
    return {404: NotFound, 409: Conflict, 410: CursorExpired}.get(status, InvalidInput)


def _retry_after(headers: Mapping[str, str]) -> dict[str, Fact]:
    seconds = whole_number(headers.get("retry-after", ""))
    return {} if seconds is None else {"retry_after_seconds": seconds}
