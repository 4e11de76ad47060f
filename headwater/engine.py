"""What `headwater.open` and `headwater.connect` both return: realm → catalog → reference. Write jobs against these types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Protocol, Unpack

from headwater.commit_options import CommitOptions, MergeOptions
from headwater.producer.catalogs.catalog_records import Catalog as CatalogInfo
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.content.snapshots import ContentEntry
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.changed_keys import ChangedKey
from headwater.producer.pointer_names import ReferenceType
from headwater.producer.references.references import Reference as ReferenceInfo
from headwater.producer.references.references import ReferencePage
from headwater.schemas.change import Change, KeyPath, Kind
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.http.feed_json import PointerInfo
from headwater.schemas.http.merge_json import MergePreview


class Snapshot(Protocol):
    """Everything that a reference held after one of its entries. Following the pointer's log after `seq` leaves no gap."""

    pointer: str
    seq: int
    entry_id: str
    commit_id: str

    def __iter__(self) -> Iterator[ContentEntry]: ...

    def entries(self, prefix: Sequence[str] = (), types: Sequence[str] | None = None) -> Iterator[ContentEntry]:
        """All below the prefix, in key order."""

    def get(self, key: KeyPath) -> ContentEntry | None: ...


class Reference(Protocol):
    """A branch or tag. Its contents are read again with every call."""

    name: str
    type: ReferenceType
    pointer: str

    def info(self) -> ReferenceInfo: ...

    def commit(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        """All operations or none. `expected_head` is strict, `base_commit` conflicts only if the same keys changed since."""

    async def commit_async(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult: ...

    def log(self, at: str | None = None) -> Iterator[Change]:
        """Commits, newest first, across the branches that this one came from."""

    def changes(self, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER) -> Iterator[Change]:
        """Every entry after the cursor, oldest first; with `follow`, future ones too."""

    def changes_async(
        self, after: str | int = "earliest", *, follow: bool = True, filter: Filter = NO_FILTER
    ) -> AsyncIterator[Change]: ...

    def snapshot(self, at: str | None = None) -> Snapshot:
        """The state now, or at `name~n`, `name@commit`, `name*time`."""

    def assign(
        self, target: str, *, expected_head: str | None = None, author: str | None = None, message: str = ""
    ) -> CommitResult:
        """Move it to any commit of the catalog."""

    def delete(self, *, expected_head: str | None = None, author: str | None = None, message: str = "") -> CommitResult:
        """Its log can still be read."""


class References(Protocol):
    """The branches and tags of one catalog, by name."""

    def get(self, name: str, *, type: ReferenceType, deleted_ok: bool = False) -> ReferenceInfo: ...

    def list(
        self, *, type: ReferenceType | None = None, token: str | None = None, limit: int = 100, deleted: bool = False
    ) -> ReferencePage:
        """Branches by name, then tags by name; with `deleted`, including deleted ones."""

    def create(self, name: str, source: str, *, type: ReferenceType, meta: CommitMeta) -> CommitResult: ...

    def assign(
        self, name: str, target: str, *, type: ReferenceType, expected_head: str | None = None, meta: CommitMeta
    ) -> CommitResult: ...

    def delete(self, name: str, *, type: ReferenceType, expected_head: str | None = None, meta: CommitMeta) -> CommitResult: ...


class Catalog(Protocol):
    info: CatalogInfo

    @property
    def name(self) -> str: ...

    @property
    def references(self) -> References: ...

    def branch(self, name: str | None = None) -> Reference:
        """The default branch, if no name is given."""

    def tag(self, name: str) -> Reference: ...

    def list_references(self, *, token: str | None = None, limit: int = 100, deleted: bool = False) -> ReferencePage: ...

    def create_branch(self, name: str, at: str | None = None, *, author: str | None = None, message: str = "") -> Reference: ...

    def create_tag(self, name: str, at: str | None = None, *, author: str | None = None, message: str = "") -> Reference: ...

    def meta(self, author: str | None = None, message: str = "") -> CommitMeta:
        """Who acts and why; without an author, this user here and the caller at a server."""

    def log(self, at: str) -> Iterator[Change]:
        """Commits, newest first, across the branches that a reference came from."""

    def reference_log(self, kinds: Collection[Kind] = ()) -> Iterator[Change]:
        """Every move of every branch and tag, including deleted ones, newest first; only of these kinds, if any are given."""

    def snapshot(self, at: str) -> Snapshot: ...

    def diff(self, before: str, after: str) -> Iterator[ChangedKey]:
        """Keys at which two references or commits differ, in key order."""

    def merge(self, source: str, into: str | None = None, **options: Unpack[MergeOptions]) -> CommitResult:
        """Apply all that the source changed since both diverged to the target, as one commit."""

    def preview_merge(self, source: str, into: str | None = None, *, rules: MergeRules | None = None) -> MergePreview:
        """What a merge would do, key by key; nothing is written."""

    def transplant(self, commits: Sequence[str], into: str | None = None, **options: Unpack[MergeOptions]) -> CommitResult:
        """Apply single commits, oldest first, each as an entry of its own, all or none."""


class Logs(Protocol):
    """The logs of all pointers of a realm, or of `::system::`: branches, tags, and records such as catalogs and grants."""

    def pointers(self, prefix: str = "") -> Iterator[PointerInfo]:
        """In order of name."""

    def changes(
        self, pointer: str, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER
    ) -> Iterator[Change]:
        """Every entry after the cursor, oldest first; with `follow`, future ones too."""


class Realm(Protocol):
    name: str

    @property
    def instance(self) -> str:
        """With its creation id, such as default#0123456789abcdef: a re-created realm is another one."""

    @property
    def logs(self) -> Logs: ...

    def catalogs(self) -> list[str]: ...

    def catalog(self, name: str) -> Catalog: ...

    def create_catalog(self, name: str, *, storage_root: str = "", author: str | None = None) -> Catalog: ...

    def drop_catalog(self, name: str, *, author: str | None = None) -> None: ...


class Engine(Protocol):
    def realm(self, name: str = "default") -> Realm:
        """A realm that is ACTIVE."""

    def system_logs(self) -> Logs:
        """The logs of `::system::`; its pointer `realms` says who created, opened, closed, purged and deleted which realm."""

    def close(self) -> None: ...
