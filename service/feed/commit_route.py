"""`POST /commit`: operations as JSON enter; the entry that they became leaves, the same one for the same Idempotency-Key."""

from __future__ import annotations

import msgspec

from headwater.schemas.errors import CommitConflict, InvalidInput
from headwater.schemas.http.feed_json import CommitBody
from headwater.service.auth.caller import Caller, caller_of
from headwater.service.auth.commit_rights import require_commit
from headwater.service.feed.service import Service
from headwater.service.http.bodies import decode_body, read_body
from headwater.service.http.correlation import correlation_headers
from headwater.service.http.preconditions import expected_version, precondition_failed
from headwater.service.http.responses import JSON, NO_STORE, Receive, Response, Scope, header
from headwater.service.idempotency.request_key import scoped_request_id
from headwater.service.operations.commits import commit
from headwater.service.operations.encoded_entries import encoded_entry

UNEXPECTED_HASH = "UNEXPECTED_HASH"

_commit_body = msgspec.json.Decoder(CommitBody)
_encode = msgspec.json.Encoder().encode


async def commit_response(service: Service, realm: str, scope: Scope, receive: Receive) -> Response:
    caller = caller_of(scope)
    body = decode_body(await read_body(scope, receive, service.config.request_bytes_max), _commit_body)
    await require_commit(service.access, caller, body)
    if not caller.development:  # who acts is proven, not said
        body = msgspec.structs.replace(body, author=caller.name)
    feed = await service.realm(realm)
    expected = expected_version(scope)
    if expected is not None:
        body = msgspec.structs.replace(body, expected_head=expected)
    try:
        pointer, answer = await commit(feed, body, _request_id(scope, caller), caller.name, correlation_headers(scope))
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


def _request_id(scope: Scope, caller: Caller) -> str | None:
    key = header(scope, b"idempotency-key")
    if key is None:
        return None
    try:
        return scoped_request_id(caller.owner_id, key.decode("ascii"), development=caller.development)
    except UnicodeDecodeError:
        raise InvalidInput("it is not ASCII.", field="Idempotency-Key", remedy="Use e.g. a UUID.") from None
