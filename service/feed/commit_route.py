"""`POST /commit`: operations as JSON enter; the entry that they became leaves, the same one for the same Idempotency-Key."""

from __future__ import annotations

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.schemas.errors import CommitConflict
from headwater.schemas.http.feed_json import CommitBody
from headwater.service.auth.caller import Caller, caller_of
from headwater.service.auth.commit_rights import require_commit
from headwater.service.feed.feed_routes import COMMIT_ROUTE
from headwater.service.feed.service import Service
from headwater.service.http.bodies import decode_body, read_body
from headwater.service.http.correlation import correlation_headers
from headwater.service.http.preconditions import expected_version, precondition_failed
from headwater.service.http.responses import JSON, NO_STORE, Receive, Response, Scope
from headwater.service.idempotency.request_key import keyed_request, request_id_of
from headwater.service.operations.commits import commit
from headwater.service.operations.encoded_entries import encoded_entry

UNEXPECTED_HASH = "UNEXPECTED_HASH"

_commit_body = msgspec.json.Decoder(CommitBody)
_encode = msgspec.json.Encoder().encode


async def commit_response(service: Service, realm: str, scope: Scope, receive: Receive) -> Response:
    caller = caller_of(scope)
    raw = await read_body(scope, receive, service.config.request_bytes_max)
    body = decode_body(raw, _commit_body)
    await require_commit(service.access, caller, body)
    if not caller.development:  # who acts is proven, not said
        body = msgspec.structs.replace(body, author=caller.name)
    feed = await service.realm(realm)
    expected = expected_version(scope)
    if expected is not None:
        body = msgspec.structs.replace(body, expected_head=expected)
    try:
        pointer, answer = await commit(feed, body, _request_key(scope, caller, raw), caller.name, correlation_headers(scope))
    except CommitConflict as conflict:
        service.commits.conflict(feed.name)
        if expected is not None and _is_of_the_head_alone(conflict):
            raise precondition_failed(conflict.message) from conflict
        raise
    change = b"null"
    if answer.logged is not None:
        seq = answer.logged.entry.seq
        kept = feed.encoded.get(f"{feed.kernel.realm}/{pointer}", seq)
        if kept is None or kept.entry_id != answer.logged.entry_id:
            kept = encoded_entry(answer.logged, feed.name)
        change = kept.json
    return Response(
        200,
        [JSON, NO_STORE, (b"etag", b'"%b"' % answer.head_commit.hex().encode())],
        b'{"pointer":%b,"commit_id":"%b","seq":%d,"replayed":%b,"change":%b}'
        % (
            _encode(pointer),
            answer.head_commit.hex().encode(),
            answer.head_seq,
            b"true" if answer.replayed else b"false",
            change,
        ),
    )


def _is_of_the_head_alone(conflict: CommitConflict) -> bool:
    conflicts = conflict.facts.get("conflicts")
    return isinstance(conflicts, list) and all(
        isinstance(one, dict) and one.get("kind") == UNEXPECTED_HASH for one in conflicts
    )


def _request_key(scope: Scope, caller: Caller, body: bytes) -> RequestKey | None:
    asked = keyed_request(scope, body, caller.owner_id, COMMIT_ROUTE)
    if asked is None:
        return None
    return RequestKey(request_id_of(asked, development=caller.development), asked.commit_fingerprint)
