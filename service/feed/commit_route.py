"""`POST /commit`: commits JSON operations, and returns the same entry for the same Idempotency-Key."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.committed_requests import RequestKey
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.commits.operations import CatalogOperation
from headwater.schemas.http.feed_json import CommitBody
from headwater.service.feed.call import FeedCall
from headwater.service.http.correlation import correlation_headers
from headwater.service.http.responses import JSON, NO_STORE, Response
from headwater.service.iceberg.put_checks import BranchOfCatalog, commit_checked
from headwater.service.idempotency.request_key import keyed_request, request_id_of
from headwater.service.operations.commits import Send, commit
from headwater.service.operations.encoded_entries import encoded_entry

_encode = msgspec.json.Encoder().encode


async def commit_response(call: FeedCall) -> Response:
    caller, feed, body = call.caller, call.feed, call.read(CommitBody)
    if not caller.development:  # who acts is proven, not said
        body = msgspec.structs.replace(body, author=caller.name)
    expected = call.version
    if expected is not None:
        body = msgspec.structs.replace(body, expected_head=expected)
    key = _request_key(call)

    async def check_and_send(
        catalog: Catalog, pointer: str, operations: Sequence[CatalogOperation], send: Send
    ) -> CommitOutcome:
        branch = BranchOfCatalog(feed.kernel, catalog, pointer)
        return await commit_checked(call.service.lakes, branch, operations, key, send)

    headers = correlation_headers(call.scope)
    pointer, answer = await commit(feed, body, call.operations, key, caller.name, check_and_send, headers)
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


def _request_key(call: FeedCall) -> RequestKey | None:
    """⚠ The key of a commit is found in the log itself, without a row of its own."""
    asked = keyed_request(call.scope, call.body, call.caller.owner_id, call.key_route)
    if asked is None:
        return None
    return RequestKey(request_id_of(asked, development=call.caller.development), asked.commit_fingerprint)
