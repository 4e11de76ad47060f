"""Calls a source over HTTP: checked addresses, bounded answers, typed errors. Callers' tokens are never forwarded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from headwater.consumers.webhooks.webhook_addresses import CheckedTransport, Resolve, checked_url, resolve
from headwater.producer.connectors.source_spi import ConnectorSpec
from headwater.schemas.errors import FeedUnreachable, HeadwaterError, InvalidInput, SourceRefused, SourceUnreachable
from headwater.service.http.bounded_answers import ACCEPTED, Unpacking

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
"""Without a byte."""
ANSWER_SECONDS_MAX = 300.0
"""For a whole answer: a source that sends a byte now and then would hold a slot for ever."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
PAGES_MAX, EMPTY_PAGES_MAX = 100_000, 1_000
"""Of one listing; empty ones in a row, as where a principal may not see what is on them."""
SAID_CHARACTERS_MAX = 300
RETRIABLE = frozenset({408, 425, 429})
Query = Mapping[str, str | int]


class Upstream:
    """⚠ The address is looked up and checked with every call, and it is the checked address that is called: a name that
    leads to a private network the second time leads nowhere."""

    def __init__(
        self,
        base: str,
        *,
        private_hosts: frozenset[str],
        headers: Mapping[str, str] | None = None,
        client: httpx.Client | None = None,
        resolve: Resolve = resolve,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = base.rstrip("/")
        self._private_hosts = private_hosts
        self._headers = dict(headers or {})
        self._client = client or httpx.Client(transport=CheckedTransport(), timeout=TIMEOUT_SECONDS, follow_redirects=False)
        self._resolve = resolve
        self._monotonic = monotonic

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Any status below 500 but 401, 403 and those that say "later"."""
        return self._send("GET", path, query, headers, None)

    def post_form(self, path: str, form: Mapping[str, str]) -> httpx.Response:
        sent = {"content-type": "application/x-www-form-urlencoded"}
        body = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in form.items())
        return self._send("POST", path, None, sent, body.encode())

    def read(self, path: str, kind: type[T], query: Query | None = None) -> T:
        """The decoded answer of a request that must succeed."""
        answer = self.get(path, query)
        if answer.status_code != httpx.codes.OK:
            raise refused(path, answer)
        return decoded(path, answer, kind)

    def authorize(self, header: str) -> None:
        self._headers["authorization"] = header

    def _send(
        self, method: str, path: str, query: Query | None, headers: Mapping[str, str] | None, body: bytes | None
    ) -> httpx.Response:
        url = path if "://" in path else self._base + path
        try:
            to = checked_url(url, allow_private=is_allowed(url, self._private_hosts), resolve=self._resolve)
        except FeedUnreachable as error:
            raise SourceUnreachable(error.message, field="uri", remedy=error.remedy) from error
        sent = {"host": to.host_header, **ACCEPTED, **self._headers, **(headers or {})}
        request = self._client.build_request(
            method, to.url, params=dict(query or {}), headers=sent, content=body, extensions={"sni_hostname": to.host}
        )
        try:
            answer = self._client.send(request, stream=True)
            try:
                self._read_bounded(path, answer)
            finally:
                answer.close()
        except httpx.HTTPError as error:
            raise SourceUnreachable(f"{type(error).__name__}: {error}.", field="uri") from error
        return _accepted(path, answer)

    def _read_bounded(self, path: str, answer: httpx.Response) -> None:
        size, parts, until = 0, [], self._monotonic() + ANSWER_SECONDS_MAX
        try:
            unpacking = Unpacking(answer.headers.get("content-encoding", ""))
            for part in (part for packed in answer.iter_raw() for part in unpacking.parts(packed)):
                size += len(part)
                if size > ANSWER_BYTES_MAX:
                    raise SourceRefused(f"{path}: the answer has more than {ANSWER_BYTES_MAX} bytes.", field="uri")
                if self._monotonic() > until:
                    raise SourceUnreachable(
                        f"{path}: the answer took longer than {ANSWER_SECONDS_MAX:.0f} seconds.", field="uri"
                    )
                parts.append(part)
            if parts:
                unpacking.end()
        except ValueError as error:
            raise SourceRefused(f"{path}: {error}.", field="uri") from error
        answer._content = b"".join(parts)


def _accepted(path: str, answer: httpx.Response) -> httpx.Response:
    status = answer.status_code
    if status in RETRIABLE or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise SourceUnreachable(f"{path}: the source answered {status}: {_said(answer)}", field="uri")
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise SourceRefused(
            f"{path}: the source answered {status}: {_said(answer)}",
            field="secret_ref",
            remedy="Check the secret and what its principal may read.",
        )
    if answer.is_redirect and status != httpx.codes.NOT_MODIFIED:
        raise SourceRefused(f"{path}: the source answered {status}.", field="uri", remedy="Give the address it redirects to.")
    return answer


def decoded(path: str, answer: httpx.Response, kind: type[T]) -> T:
    """⚠ Nonsense is an error of the source, never an empty list."""
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceRefused(f"{path}: the answer cannot be read: {error}.", field="uri") from error


class Listing:
    """⚠ The pages of one listing: one that repeats itself, or goes on without bringing anything, would never end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._token = ""
        self._pages = self._empty = 0

    def next_page(self, token: str | None, entries: int) -> str | None:
        """What leads to the page after one with so many entries; None after the last one."""
        self._pages += 1
        self._empty = 0 if entries else self._empty + 1
        if token and (token == self._token or self._empty > EMPTY_PAGES_MAX or self._pages > PAGES_MAX):
            raise SourceRefused(f"{self._path}: the listing does not go on.", field="uri")
        self._token = token or ""
        return token or None


def refused(path: str, answer: httpx.Response) -> HeadwaterError:
    return SourceRefused(f"{path}: the source answered {answer.status_code}: {_said(answer)}", field="uri")


def is_allowed(url: str, hosts: frozenset[str]) -> bool:
    """Whether the operator lists the host, with or without its port."""
    parts = urlsplit(url)
    try:
        return parts.hostname in hosts or f"{parts.hostname}:{parts.port}" in hosts
    except ValueError:
        return False


def check_uri(spec: ConnectorSpec) -> None:
    parts = urlsplit(spec.uri)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
        raise InvalidInput(
            f"{spec.uri[:200]!r} is not an address of a source.",
            field="uri",
            remedy="Use https://host/path, without a password or a query in it.",
        )


def check_known(spec: ConnectorSpec, known: frozenset[str]) -> None:
    for name in sorted(spec.properties.keys() - known):
        raise InvalidInput(
            f"{spec.source} has no property {name[:80]!r}.",
            field=f"properties.{name[:80]}",
            remedy=f"Use {', '.join(sorted(known))}." if known else "Leave it out.",
        )


def _said(answer: httpx.Response) -> str:
    return answer.content[:SAID_CHARACTERS_MAX].decode(errors="replace")


def bearer(secret: bytes) -> dict[str, str]:
    """A secret with a colon is a client's id and secret, which are exchanged for a token; any other is the token."""
    text = secret.decode(errors="replace").strip()
    return {"authorization": f"Bearer {text}"} if text and ":" not in text else {}


def log_in(upstream: Upstream, secret: bytes, token_path: str, scope: str = "") -> None:
    """By client credentials, if the secret is an id and a secret."""
    client_id, colon, client_secret = secret.decode(errors="replace").strip().partition(":")
    if not colon:
        return
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
    answer = upstream.post_form(token_path, {**form, **({"scope": scope} if scope else {})})
    if answer.status_code != httpx.codes.OK:
        raise SourceRefused(
            f"{token_path}: the source answered {answer.status_code}.", field="secret_ref", remedy="Check the client's secret."
        )
    upstream.authorize(f"Bearer {decoded(token_path, answer, _Token).access_token}")


class _Token(msgspec.Struct, frozen=True):
    access_token: str
