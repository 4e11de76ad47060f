"""The part of a branch that belongs to a connector: what it holds, and commits to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import MESSAGE_BYTES_MAX, CommitMeta
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.connectors.bridge_plan import Held, ancestors
from headwater.producer.connectors.connector_records import Connector
from headwater.producer.connectors.source_spi import SourceContent
from headwater.producer.content.content_types import typed_value
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.schemas.change import KeyPath

HEADER = "headwater.observed."
HEADER_CHARACTERS_MAX = 1_000


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the source says about a change."""

    version: str
    time: str = ""
    author: str = ""
    message: str = ""
    gap: str = ""
    """Why this commit stands for more than one of the source."""


class DestinationBranch:
    def __init__(self, kernel: RealmKernel, connector: Connector) -> None:
        self._kernel = kernel
        self._connector = connector
        self._snapshots = Snapshots(kernel, connector.destination.catalog_id)
        self.path = connector.destination.path
        self.pointer = connector.destination.pointer
        self.log = PointerLog(kernel, self.pointer)

    def key(self, key: KeyPath) -> KeyPath:
        return (*self.path, *key)

    def source_key(self, key: KeyPath) -> KeyPath:
        return key[len(self.path) :]

    def wanted(self, content: SourceContent) -> Held:
        """Checked like what a caller commits. ⚠ The id is the connector's own for the source's: two connectors that observe
        one table make two contents."""
        typed = typed_value(content.type, content.value, f"content of {'.'.join(content.key)[:200]}")
        connector = uuid.UUID(self._connector.id)
        return Held(str(uuid.uuid5(connector, content.id)) if content.id else "", typed.type, typed.value)

    def at(self, head: LogHead, keys: Iterable[KeyPath]) -> dict[KeyPath, Held]:
        """The contents at the keys and at their ancestors."""
        keys_to_read = {one for key in keys for one in (*ancestors(key), key)}
        return _held(self._snapshots.get(head.newest, sorted(keys_to_read)).values()) if keys_to_read else {}

    def everything(self, head: LogHead) -> dict[KeyPath, Held]:
        """All below the path, the path itself and its ancestors."""
        found = self.at(head, [self.path]) if self.path else {}
        return found | _held(self._snapshots.entries(head.newest, prefix=self.path))

    def commit(self, operations: Sequence[CatalogOperation], seen: Seen, request_id: str) -> None:
        message = (seen.message or f"Observed {seen.version}").encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore")
        meta = CommitMeta(self._connector.author, message, self._headers(seen))
        request = CatalogCommit(
            self._kernel, operations, meta, request_id=RequestKey(request_id), connector_id=self._connector.id
        )
        self._kernel.committer.commit(self.pointer, request)

    def _headers(self, seen: Seen) -> dict[str, str]:
        spec = self._connector.spec
        facts = {
            "by": self._connector.name,
            "source": f"{spec.source} {spec.uri}",
            "version": seen.version,
            "time": seen.time,
            "author": seen.author,
            "gap": seen.gap,
        }
        return {HEADER + name: text[:HEADER_CHARACTERS_MAX] for name, text in facts.items() if text}


def _held(entries: Iterable[ContentEntry]) -> dict[KeyPath, Held]:
    return {entry.key: Held(entry.content_id, entry.type, entry.value) for entry in entries}
