"""What makes two requests the same: key, method, path, query and body."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import parse_qsl

import msgspec

from headwater.persistence.records.idempotency_rows import KeyedRequest
from headwater.producer.commits.commit_meta import REQUEST_ID_BYTES_MAX
from headwater.schemas.errors import InvalidInput
from headwater.service.http.responses import Scope, header, one_header

KEY_CHARACTERS_MAX = 200
_KEY = re.compile(rf"[\x21-\x7e]{{1,{KEY_CHARACTERS_MAX}}}")


def idempotency_key(scope: Scope) -> str | None:
    raw = one_header(scope, b"idempotency-key", "Idempotency-Key")
    if raw is None:
        return None
    key = raw.decode("latin-1")
    if not _KEY.fullmatch(key):
        raise InvalidInput(
            f"it is not 1 to {KEY_CHARACTERS_MAX} visible ASCII characters.", field="Idempotency-Key", remedy="Use e.g. a UUID."
        )
    return key


def keyed_request(scope: Scope, body: bytes, principal: str, route: str) -> KeyedRequest | None:
    """None for a request without a key."""
    key = idempotency_key(scope)
    if key is None:
        return None
    digest = hashlib.sha256()
    for part in (scope["method"].encode(), scope["path"].encode("utf-8", "replace"), _query(scope), _if_match(scope)):
        digest.update(b"%d:" % len(part) + part)
    digest.update(canonical_body(body))
    return KeyedRequest(principal=principal, key=key, route=f"{scope['method']} {route}", fingerprint=digest.digest())


def canonical_body(body: bytes) -> bytes:
    """JSON without its spelling: the order of names, blanks and escapes; anything else as it is."""
    try:
        return msgspec.json.encode(msgspec.json.decode(body), order="deterministic")
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        return body


def request_id_of(asked: KeyedRequest, *, development: bool) -> str:
    """⚠ Of the key alone and its caller: every process computes the same, also when the row of the key is gone. One
    caller's key does not meet another's; in development there is one caller."""
    return scoped_request_id(asked.principal, asked.key, development=development)


def scoped_request_id(owner: str, key: str, *, development: bool) -> str:
    """Prefixes the key with a `Caller.owner_id`, in which `%` is followed by digits: no owner is called `%key`."""
    request_id = key if development else f"{owner}:{key}"
    if len(request_id.encode()) <= REQUEST_ID_BYTES_MAX or development:
        return request_id
    return f"%key:{hashlib.sha256(request_id.encode()).hexdigest()}"


def _query(scope: Scope) -> bytes:
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return msgspec.json.encode(sorted(pairs))


def _if_match(scope: Scope) -> bytes:
    return header(scope, b"if-match") or b""
