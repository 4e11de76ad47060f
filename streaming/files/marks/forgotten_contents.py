"""Tables whose history was given up: what retained states before their drop name is not in use.

⚠ A table that any branch or tag holds at its head is in use with all its versions, whatever a record says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.index import encode_key
from headwater.persistence.log.log_entry import CONTENT
from headwater.producer.forgotten_tables import FORGOTTEN_TABLES, ForgottenTable
from headwater.schemas.change import KeyPath
from headwater.streaming.files.marks.table_histories import index_of, references_in
from headwater.streaming.reachability.retained_identifiers import Span, WalkedRealm


def forgotten_contents(backend: Backend, realm: str, spans: Mapping[str, Span]) -> frozenset[int]:
    """The object ids of versions that keep no files, as of the heads in these spans."""
    span = spans.get(FORGOTTEN_TABLES)
    if span is None:
        return frozenset()
    walked = WalkedRealm(backend, realm, spans)
    ids = [value.object_id for _, value in index_of(walked, walked.walk.load(span.head)).items()]
    records = [msgspec.convert(one.value, ForgottenTable) for one in walked.objects.fetch_many(CONTENT, ids).values()]
    tables = [table for table in records if table.is_settled]
    if not tables:
        return frozenset()
    held = _held_at_heads(walked, {key for table in tables for key in table.keys})
    return frozenset(one for table in tables if held.isdisjoint(table.versions) for one in table.versions)


def _held_at_heads(walked: WalkedRealm, keys: Iterable[KeyPath]) -> set[int]:
    """What the heads of branches and tags hold at these keys."""
    encoded = [encode_key(key) for key in keys]
    ids: set[int] = set()
    for _, span in references_in(walked.spans):
        ids.update(value.object_id for value in index_of(walked, walked.walk.load(span.head)).get_many(encoded).values())
    return ids
