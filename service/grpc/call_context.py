"""The context of one call: built once from its metadata, frozen, and passed on explicitly.

Call metadata become a request scope, so principal providers, rate limits and plug-ins work as they do for HTTP.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.service.errors.languages import language_of
from headwater.service.errors.translations import ENGLISH
from headwater.service.http.correlation import CORRELATION_ID
from headwater.service.http.responses import Scope, header, is_repeated

PRINCIPAL = "x-principal-bin"
PLAN_ID = b"x-plan-id"
IDEMPOTENCY_KEY = b"idempotency-key"
OURS = frozenset({b"if-match", b"if-none-match", b"content-length", b"content-encoding", b"host"})
"""Headers of HTTP that a caller of gRPC cannot send: fields of the message say what they mean."""

_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
Metadata = Iterable[tuple[str, str | bytes]]


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    request_id: str
    correlation_id: str
    """The caller's, which is stored in the commit's headers, or the request id."""
    is_correlated: bool = False
    """Whether it is the caller's."""
    plan_id: str
    """Context, never a credential."""
    locale: str = ENGLISH
    deadline: float | None = None
    """By the monotonic clock."""
    principal: bytes | None = None
    """`x-principal-bin` as it came: no proof of anything."""
    peer_names: frozenset[str] = frozenset()
    """Subject alternative names of the certificate that the client showed and that was checked; none without mTLS."""
    scope: Scope

    @property
    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


def call_context(
    method: str,
    metadata: Metadata,
    peer: str,
    seconds_left: float | None,
    request_id: str,
    peer_names: frozenset[str] = frozenset(),
) -> CallContext:
    """`InvalidInput` for metadata that cannot be meant."""
    headers: list[tuple[bytes, bytes]] = []
    principal: bytes | None = None
    for name, value in metadata:
        if name == PRINCIPAL:
            principal = value if isinstance(value, bytes) else value.encode("latin-1", "replace")
        elif not name.endswith("-bin") and name.encode() not in OURS:
            headers.append((name.encode(), value if isinstance(value, bytes) else value.encode("latin-1", "replace")))
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": f"/{method}",
        "query_string": b"",
        "headers": headers,
        "client": address_of(peer),
    }
    given = header(scope, CORRELATION_ID)
    is_correlated = given is not None and _ID.fullmatch(given) is not None
    return CallContext(
        method=method,
        request_id=request_id,
        correlation_id=given.decode() if given is not None and is_correlated else request_id,
        is_correlated=is_correlated,
        plan_id=(header(scope, PLAN_ID) or b"")[:128].decode("latin-1"),
        deadline=None if seconds_left is None else time.monotonic() + seconds_left,
        principal=principal,
        peer_names=peer_names,
        scope=scope,
    )


def localized(context: CallContext, messages_dir: str) -> CallContext:
    locale = language_of(context.scope, messages_dir)
    return context if locale == context.locale else msgspec.structs.replace(context, locale=locale)


def call_key(context: CallContext, in_message: str) -> str | None:
    """The key of the message or of the metadata; two different ones are refused."""
    raw = header(context.scope, IDEMPOTENCY_KEY)
    in_metadata = None if raw is None else raw.decode("latin-1")
    if is_repeated(context.scope, IDEMPOTENCY_KEY):
        raise InvalidInput("the metadata name it more than once.", field="idempotency.key", remedy="Send one key.")
    if in_metadata is not None and in_message and in_metadata != in_message:
        raise InvalidInput(
            "the message and the metadata name two different keys.", field="idempotency.key", remedy="Send one of them."
        )
    return in_message or in_metadata


def address_of(peer: str) -> tuple[str, int]:
    """`ipv4:127.0.0.1:50000` and `ipv6:%5B::1%5D:50000` as a host and a port."""
    host, _, port = peer.partition(":")[2].rpartition(":")
    host = host.replace("%5B", "").replace("%5D", "").strip("[]")
    return host or "unknown", int(port) if port.isdecimal() else 0
