"""The interface of a source: a catalog elsewhere whose changes are committed here.

A plug-in names a `SourceFactory` as an entry point of the group `headwater.connectors`. A source with a log of its own is a
`LogSource` and is followed commit by commit; any other is polled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from headwater.schemas.change import KeyPath, Op, Value

ENTRY_POINT_GROUP = "headwater.connectors"


class ConnectorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a factory needs to open a source. Nothing in it is secret."""

    source: str
    """The factory's name: iceberg-rest, nessie, headwater, delta, hive, or a plug-in's."""
    uri: str
    properties: dict[str, str] = {}
    secret_ref: str = ""
    """Names a file below the realm's folder of `connector_secrets_dir`."""
    roots: tuple[str, ...] = ()
    """Where the files of observed tables may lie."""


class SourceContent(msgspec.Struct, frozen=True, kw_only=True):
    """One table, view, function or namespace as the source has it."""

    key: KeyPath
    id: str
    """The source's id of the content: it stays while the content is changed or renamed. Empty if the source has none."""
    type: str
    value: Value


class SourceOperation(msgspec.Struct, frozen=True, kw_only=True):
    op: Op
    key: KeyPath
    from_key: KeyPath | None = None
    content: SourceContent | None = None
    """The content at the key after a put or a rename."""


class SourceCommit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of a source's log."""

    position: str
    """Where the log continues after it."""
    version: str
    """How the source names it: a hash or an entry id."""
    author: str = ""
    message: str = ""
    time: str = ""
    operations: tuple[SourceOperation, ...] = ()


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """All contents at one position of the source's log."""

    position: str
    version: str
    contents: Iterator[SourceContent]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a table."""

    version: str
    value: Value
    time: str = ""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """A table or view as a polled source shows it: its versions as far back as they are known, oldest first."""

    id: str
    type: str
    steps: tuple[Step, ...]
    tag: str = ""
    """Sent back as `seen`, so that an unchanged table costs one short answer."""
    is_whole: bool = True
    """Whether the first step is the table's creation."""


class Same(msgspec.Struct, frozen=True):
    """Nothing has changed since `seen`."""


class Missing(msgspec.Struct, frozen=True):
    """The source says that there is no such table."""


class Source(Protocol):
    def check(self) -> None:
        """Reach the source and read one page; a typed error says what is wrong."""

    def namespaces(self) -> Iterator[SourceContent]:
        """All of them, parents first."""

    def tables(self, namespace: KeyPath) -> Iterator[KeyPath]:
        """All tables and views directly in a namespace. ⚠ An incomplete listing is an error, never a short list."""

    def observe(self, key: KeyPath, seen: str) -> Observation | Same | Missing: ...

    def close(self) -> None: ...


@runtime_checkable
class LogSource(Protocol):
    """A source that has a log: every commit is delivered once, oldest first."""

    def check(self) -> None: ...

    def changes(self, position: str) -> Iterator[SourceCommit]:
        """Commits after a position, oldest first, to the head of now; all of them after "". `CursorGone` if the log does not
        reach back to the position."""

    def state(self) -> SourceState:
        """Everything at the head of now."""

    def close(self) -> None: ...


class DeletedRows(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion vector of a data file."""

    path: str
    format: str
    offset: int | None = None
    size_bytes: int
    count: int


class ScanFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file that a scan reads."""

    path: str
    format: str
    size_bytes: int
    record_count: int = 0
    """0 where the source does not know."""
    partition: dict[str, str | None] = {}
    """By column, as the source writes values."""
    deleted: DeletedRows | None = None


class ScanPlan(msgspec.Struct, frozen=True):
    snapshot_id: int
    """As the source numbers what is read."""
    files: Iterator[ScanFile]
    """Read while they are taken. All that may hold rows of the filter, and perhaps more."""


@runtime_checkable
class PlanningSource(Protocol):
    """A source that plans scans of its tables; its factory names their content types in `planned_types`."""

    def plan(self, key: KeyPath, version: str, snapshot_id: int | None, filter: bytes) -> ScanPlan:
        """Of a version that was observed, or of a snapshot that the version still knows. The filter is an expression of the
        Iceberg REST specification, empty for all rows. `SnapshotNotFound` if it is gone."""


AnySource = Source | LogSource


class SourceFactory(Protocol):
    """One whose sources plan scans has `planned_types` too, the names of the content types that they plan. One whose sources
    are `LogSource`s has `has_log = True`, so that a scope is refused before a job is queued."""

    def check_spec(self, spec: ConnectorSpec) -> None:
        """`InvalidInput` for a spec that cannot work; nothing is called."""

    def open(self, spec: ConnectorSpec, secret: bytes) -> AnySource: ...


SourceFactories = Mapping[str, SourceFactory]


def names(factories: SourceFactories) -> Sequence[str]:
    return sorted(factories)
