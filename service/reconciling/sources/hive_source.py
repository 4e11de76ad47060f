"""Follows a Hive metastore by its notification log: databases and Iceberg tables, event by event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from headwater.consumers.webhooks.webhook_addresses import checked_url
from headwater.persistence.clock import MICROS
from headwater.producer.connectors.source_spi import ConnectorSpec, SourceCommit, SourceContent, SourceState
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import (
    CursorExpired,
    CursorReset,
    FeedUnreachable,
    InvalidInput,
    SourceRefused,
    SourceUnreachable,
)
from headwater.service.reconciling.source_secrets import check_secret_ref
from headwater.service.reconciling.sources.hive_events import HiveEvent, event_of, namespace_of, operations_of, table_of
from headwater.service.reconciling.sources.thrift_calls import (
    ThriftCalls,
    i32_field,
    i64_field,
    struct_field,
    text_field,
    texts_field,
)
from headwater.service.reconciling.sources.upstream import check_known, is_allowed
from headwater.service.storage.storage_roots import StorageRoots

T = TypeVar("T")
EVENTS_AT_ONCE, TABLES_AT_ONCE = 500, 200


class HiveSource:
    """A position is the metastore's id, the number of an event, and its digest: another log has another event there.

    ⚠ The metastore numbers events without a hole, in the order of their commits. What is missing has expired."""

    def __init__(self, calls: ThriftCalls) -> None:
        self._calls = calls

    def check(self) -> None:
        self._newest()
        self._databases()

    def close(self) -> None:
        self._calls.close()

    def changes(self, position: str) -> Iterator[SourceCommit]:
        """⚠ The log never tells everything from the beginning: databases and tables may be older than it."""
        if not position:
            raise CursorExpired("the log does not tell how the metastore began.", field="position")
        metastore, at = self._id(), self._known(position)
        newest = self._newest()
        if newest < at:
            raise CursorReset(f"the newest event is {newest}, before {at}: the metastore was restored.", field="position")
        for event in self._after(at, newest):
            yield _commit(metastore, event)

    def state(self) -> SourceState:
        """What the listing says, and all events since it began: so it is the state at the last of them."""
        metastore, since = self._id(), self._newest()
        found = {one.key: one for one in self._contents()}
        newest = self._newest()
        for event in self._after(since, newest):
            _apply(found, event)
        last = next(iter(self._events(newest - 1, 1)), None)
        digest = last.digest if last is not None and last.id == newest else ""
        return SourceState(position=f"{metastore} {newest} {digest}", version=str(newest), contents=iter(found.values()))

    # ── the log ─────────────────────────────────────────────────────────────────────────────────────────────

    def _known(self, position: str) -> int:
        """The number of the last event that was taken; `CursorReset` if another one has its number by now."""
        metastore, number, digest = position.split(" ")
        if metastore != self._id():
            raise CursorReset("it is another metastore.", field="position")
        found = next(iter(self._events(int(number) - 1, 1)), None)
        if found is not None and found.id == int(number) and digest and found.digest != digest:
            raise CursorReset(f"event {number} is another one than before.", field="position")
        return int(number)

    def _after(self, at: int, newest: int) -> Iterator[HiveEvent]:
        while at < newest:
            events = self._events(at, EVENTS_AT_ONCE)
            if not events:
                raise CursorExpired(f"events after {at} have expired.", field="position")
            for event in events:
                if event.id != at + 1:
                    raise CursorExpired(f"event {event.id} follows event {at}.", field="position")
                at = event.id
                yield event

    def _events(self, after: int, count: int) -> Sequence[HiveEvent]:
        asked = struct_field(1, i64_field(1, max(after, 0)), i32_field(2, count))
        return [event_of(one) for one in _of(self._answer("get_next_notification", asked), 1, list) or ()]

    def _newest(self) -> int:
        return int(_of(self._answer("get_current_notificationEventId"), 1, int))

    def _id(self) -> str:
        """Releases before 3 have none."""
        try:
            return str(self._answer("get_metastore_db_uuid")).replace(" ", "")
        except SourceRefused:
            return "-"

    # ── the state ───────────────────────────────────────────────────────────────────────────────────────────

    def _contents(self) -> Iterator[SourceContent]:
        for name in self._databases():
            found = self._calls.call("get_database", text_field(1, name))
            if 0 not in found:  # dropped since it was listed, which the log says too
                continue
            yield namespace_of(found[0])
            tables = self._names("get_all_tables", text_field(1, name))
            for first in range(0, len(tables), TABLES_AT_ONCE):
                asked = struct_field(1, text_field(1, name), texts_field(2, tables[first : first + TABLES_AT_ONCE]))
                answer = self._calls.call("get_table_objects_by_name_req", asked).get(0)
                for table in _of(answer, 1, list) if answer is not None else ():
                    content = table_of(table)
                    if content is not None:
                        yield content

    def _databases(self) -> Sequence[str]:
        return self._names("get_all_databases")

    def _names(self, method: str, *fields: bytes) -> list[str]:
        """⚠ Whole, or an error: what a listing leaves out would be dropped here."""
        found = self._answer(method, *fields)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise SourceRefused(f"{method}: the answer is no list of names.", field="uri")
        return found

    def _answer(self, method: str, *fields: bytes) -> object:
        found = self._calls.call(method, *fields)
        if 0 not in found:
            raise SourceRefused(f"{method}: the source answered: {str(found)[:300]}", field="uri")
        return found[0]


def _of(answer: object, id: int, kind: type[T]) -> T:
    found = answer.get(id) if isinstance(answer, dict) else None
    if not isinstance(found, kind):
        raise SourceRefused("the answer cannot be read.", field="uri")
    return found


def _commit(metastore: str, event: HiveEvent) -> SourceCommit:
    name = ".".join(part for part in (event.database, event.table) if part)
    return SourceCommit(
        position=f"{metastore} {event.id} {event.digest}",
        version=str(event.id),
        message=f"{event.type} {name}",
        time=time_text(event.seconds * MICROS) if event.seconds > 0 else "",
        operations=operations_of(event),
    )


def _apply(found: dict[KeyPath, SourceContent], event: HiveEvent) -> None:
    for one in operations_of(event):
        if one.op is not Op.PUT:
            found.pop(one.from_key or one.key, None)
        if one.content is not None:
            found[one.key] = one.content


SCHEMES = frozenset({"thrift"})


class HiveFactory:
    has_log = True

    def __init__(self, private_hosts: frozenset[str], roots: StorageRoots) -> None:
        self._private_hosts = private_hosts
        self._roots = roots

    def check_spec(self, spec: ConnectorSpec) -> None:
        parts = urlsplit(spec.uri)
        try:
            is_address = parts.scheme in SCHEMES and bool(parts.hostname and parts.port) and parts.username is None
        except ValueError:
            is_address = False
        if not is_address or parts.path.strip("/") or parts.query:
            raise InvalidInput(
                f"{spec.uri[:200]!r} is not an address of a metastore.", field="uri", remedy="Use thrift://host:9083."
            )
        check_known(spec, frozenset())
        if check_secret_ref(spec.secret_ref):
            raise InvalidInput(
                "a metastore is asked without a sign-in.", field="secret_ref", remedy="Leave it out; Kerberos is not supported."
            )
        for root in spec.roots:
            self._roots.check(root)
        try:
            self._address(spec)
        except SourceUnreachable:  # a name that has no address now may have one later
            return

    def open(self, spec: ConnectorSpec, secret: bytes) -> HiveSource:
        address, port = self._address(spec)
        return HiveSource(ThriftCalls(address, port))

    def _address(self, spec: ConnectorSpec) -> tuple[str, int]:
        """⚠ It is the checked address that is called."""
        try:
            private = is_allowed(spec.uri, self._private_hosts)
            to = urlsplit(checked_url(spec.uri, allow_private=private, schemes=SCHEMES).url)
        except FeedUnreachable as error:
            raise SourceUnreachable(error.message, field="uri", remedy=error.remedy) from error
        return to.hostname or "", to.port or 0
