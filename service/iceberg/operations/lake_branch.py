"""One branch of a catalog: reads its states and commits to it.

Every change is made by the same loop: read the state, judge the request by it, write what must be written, commit on condition
that nothing of it has changed since. If something has, the files of the lost race are removed and the request is judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.request_lookup import find_request
from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalog_settings import ENGINE_GC, TABLE_OVERLAP, Guard, guard_of
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.content.snapshots import PAGE_KEYS_MAX, ContentEntry, Snapshots
from headwater.producer.forgotten_tables import ForgottenTables, history_forgotten
from headwater.producer.pointer_names import branch_pointer
from headwater.producer.references.reference_specs import parse_reference_spec
from headwater.producer.references.references import References
from headwater.schemas.change import Change, KeyPath
from headwater.schemas.errors import (
    CommitConflict,
    ContentExists,
    HeadwaterError,
    InvalidInput,
    NamespaceNotFound,
    OutcomeUnknown,
    RequirementFailed,
    TableNotFound,
    ViewNotFound,
)
from headwater.service.iceberg.operations.content_metadata import NO_COPIES, ContentMetadata, CopyWriter
from headwater.service.iceberg.operations.key_locks import KeyLocks
from headwater.service.iceberg.operations.metadata_files import MetadataFile, MetadataFiles
from headwater.service.iceberg.operations.table_locations import TableLocations, check_apart
from headwater.service.storage.locations import is_below

MetadataAt = Callable[[RealmKernel, Catalog, KeyPath, str], MetadataFiles]
ATTEMPTS_MAX = 20
KEYS_KNOWN_MAX = 10_000
NAMESPACE, TABLE, VIEW = "NAMESPACE", "ICEBERG_TABLE", "ICEBERG_VIEW"


class CommitAuthor(msgspec.Struct, frozen=True):
    """Who asks, and under which key the answer is the same if it is asked again."""

    author: str
    key: RequestKey | None = None
    request_id: str | None = None
    """What the commit carries, where somebody will look for it; the key if there is one."""
    headers: dict[str, str] = {}
    """Headers of the request that the commit records: its correlation id."""
    expected_head: str | None = None
    """The commit at which the caller expects the branch: a lost race is reported, and not run again."""
    on_done: Callable[[BranchOutcome], None] | None = None
    """Called with what became of the change, by APIs that return it."""


class BranchStep(msgspec.Struct):
    """What a request comes to in one state."""

    operations: Sequence[CatalogOperation]
    message: str
    headers: dict[str, str] = {}
    written: list[str] = []
    """Metadata files that are garbage if the commit is lost."""
    answer: Any = None
    expected_head: str | None = None
    """The commit that the branch must stand at, where the whole state was judged and not only some keys of it."""


class BranchOutcome(msgspec.Struct):
    answer: Any
    logged: LogRecord | None
    realm: str
    replayed: bool = False

    @property
    def change(self) -> Change | None:
        """None where nothing had to be done. Made when it is asked for: most want the answer alone."""
        return None if self.logged is None else change_of(self.logged, self.realm)


class LakeState:
    """What the branch held at one entry."""

    def __init__(self, snapshots: Snapshots, at: LogRecord) -> None:
        self._snapshots = snapshots
        self._at = at
        self._known: dict[KeyPath, ContentEntry | None] = {}

    def read_ahead(self, keys: Sequence[KeyPath]) -> None:
        """In bulk, where many are asked for next."""
        self._known = dict.fromkeys(keys) | self._snapshots.get(self._at, keys)

    @property
    def at(self) -> LogRecord:
        return self._at

    @property
    def seq(self) -> int:
        return self._at.entry.seq

    def get(self, key: KeyPath) -> ContentEntry | None:
        if key in self._known:
            return self._known[key]
        return self._snapshots.get(self._at, [key]).get(key)

    def require_namespace(self, key: KeyPath) -> ContentEntry:
        found = self.get(key)
        if found is None or found.type != NAMESPACE:
            raise NamespaceNotFound(f"Namespace does not exist: {shown(key)}", field="namespace")
        return found

    def require_table(self, key: KeyPath) -> ContentEntry:
        return as_table(key, self.get(key))

    def require_view(self, key: KeyPath) -> ContentEntry:
        return as_view(key, self.get(key))

    def require_free(self, key: KeyPath, wanted: str, *, renamed_from: KeyPath | None = None) -> None:
        """The namespace is there, and the name is free for what is wanted: a table, a view or a namespace.

        The messages are those of Iceberg's reference server: its clients and tests read them.
        """
        if len(key) > 1:
            self.require_namespace(key[:-1])
        found = self.get(key)
        if found is None:
            return
        kind = _KINDS.get(found.type, "Content")
        if renamed_from is not None:
            message = f"Cannot rename {shown(renamed_from)} to {shown(key)}. {kind} already exists"
        elif found.type == wanted:
            message = f"{kind} already exists: {shown(key)}"
        else:
            message = f"{kind} with same name already exists: {shown(key)}"
        raise ContentExists(message, field="name")

    def is_empty(self, namespace: KeyPath) -> bool:
        return not self._snapshots.page(self._at, prefix=namespace, limit=1).entries

    def below(self, namespace: KeyPath, most: int) -> list[ContentEntry]:
        """Everything below the namespace, at any depth."""
        found: list[ContentEntry] = []
        token: str | None = None
        while True:
            page = self._snapshots.page(self._at, prefix=namespace, token=token, limit=PAGE_KEYS_MAX)
            found += page.entries
            token = page.next_token
            if len(found) > most:
                raise InvalidInput(f"it holds more than {most} keys.", field="namespace", remedy="Move what is below it first.")
            if token is None:
                return found

    def page(self, namespace: KeyPath, type: str, token: str | None, limit: int) -> tuple[list[KeyPath], str | None]:
        page = self._snapshots.page(
            self._at, prefix=namespace, types=[type], children_only=True, token=token or None, limit=limit
        )
        return [entry.key for entry in page.entries], page.next_token


class LakeBranch:
    """One branch, or another reference to read from alone."""

    def __init__(
        self,
        kernel: RealmKernel,
        catalog: Catalog,
        reference: str,
        metadata: MetadataFiles,
        locks: KeyLocks,
        copies: CopyWriter | None = None,
        metadata_at: MetadataAt | None = None,
    ) -> None:
        self.kernel = kernel
        self.catalog = catalog
        self.metadata = metadata
        self._metadata_at = metadata_at
        self.reference = reference or catalog.default_branch
        self._references = References(kernel, catalog.id, catalog.default_branch)
        self._snapshots = Snapshots(kernel, catalog.id)
        self._locks = locks
        self._content_metadata = ContentMetadata(kernel, metadata, copies or NO_COPIES)
        self._locations = TableLocations(kernel, catalog.id, metadata)
        self._known: tuple[bytes, dict[KeyPath, ContentEntry | None]] = (b"", {})

    @property
    def pointer(self) -> str:
        """Pointer of the branch; a tag or a past commit takes no commits and has no log of its own to follow."""
        return branch_pointer(self.catalog.id, self.reference)

    @property
    def engine_gc_refused(self) -> bool:
        return guard_of(self.catalog.properties, ENGINE_GC) is Guard.REFUSE

    @property
    def table_config(self) -> dict[str, str]:
        """The configuration that a client gets with each table, beside the storage options."""
        return {"s3.delete-enabled": "false"} if self.engine_gc_refused and self.metadata.warehouse.is_s3 else {}

    def check_places(
        self, at: LogRecord, wanted: Mapping[KeyPath, Sequence[str]], freed: Set[KeyPath] = frozenset()
    ) -> str | None:
        """`LocationForbidden` if another table is there at the entry, unless the commit frees its key. What the commit must
        expect as head, so that none comes between.

        ⚠ Only places that a client chose: it can name any folder.
        """
        places = [place for of_key in wanted.values() for place in of_key]
        if not places or guard_of(self.catalog.properties, TABLE_OVERLAP) is Guard.ALLOW:
            return None
        check_apart(wanted)
        for key, of_key in wanted.items():
            self._locations.check(at, key, of_key, freed)
        return at.commit.hex()

    def tables_at(self, places: Sequence[str]) -> set[KeyPath]:
        """Tables of the branch, as it is now, that have files at, above or below the places; none if the catalog allows it."""
        if guard_of(self.catalog.properties, TABLE_OVERLAP) is Guard.ALLOW:
            return set()
        return self._locations.tables_at(self.state().at, places)

    def state(self) -> LakeState:
        """A strong read: it contains every commit that was acknowledged before."""
        return self.state_at(self._references.resolve(self.reference).logged)

    def state_at(self, logged: LogRecord) -> LakeState:
        """The state after that entry."""
        return LakeState(self._snapshots, logged)

    def files_at(self, key: KeyPath, location: str) -> MetadataFiles:
        """Reads files of the table or view at the key; a connector's files may lie below its own roots."""
        if self._metadata_at is None or is_below(location, self.metadata.warehouse.root):
            return self.metadata
        return self._metadata_at(self.kernel, self.catalog, key, location)

    def load_metadata(self, key: KeyPath, location: str) -> MetadataFile:
        """The metadata of the table or view at the key with this location."""
        self._require_remembered(key)
        files = self.files_at(key, location)
        if files is not self.metadata:
            return files.load(location)
        return files.kept(location) or self._content_metadata.load(location, partial(self._content_object, key))

    def load_metadata_if_there(self, key: KeyPath, location: str) -> MetadataFile:
        """⚠ Not from memory alone: for answers to readers, who need the file itself next."""
        files = self.files_at(key, location)
        if files.kept(location) is not None:
            self._require_remembered(key)
            return files.load_if_there(location)
        return self.load_metadata(key, location)

    def _require_remembered(self, key: KeyPath) -> None:
        """`HistoryForgotten` if this is a state of the past, and the history of its table was given up."""
        spec = parse_reference_spec(self.reference)
        if spec.commit is None and not spec.steps:
            return
        forgotten = {table.content_id for table in ForgottenTables(self.kernel).all() if key in table.keys}
        found = self.state().get(key) if forgotten else None
        if found is not None and found.content_id in forgotten:
            raise history_forgotten(key)

    def _content_object(self, key: KeyPath) -> int | None:
        return self._snapshots.content_object(self._references.resolve(self.reference).logged, key)

    def current(self, keys: Iterable[KeyPath]) -> dict[KeyPath, ContentEntry | None]:
        """What stands at the keys now, read strongly; contents that were read at the newest entry before are known."""
        newest = self._references.resolve(self.reference).logged
        entry_id, known = self._known
        if entry_id != newest.entry_id or len(known) > KEYS_KNOWN_MAX:
            known = {}
        missing = [key for key in keys if key not in known]
        if missing:
            found = self._snapshots.get(newest, missing)
            known = {**known, **{key: found.get(key) for key in missing}}
            self._known = (newest.entry_id, known)
        return {key: known[key] for key in keys}

    def change(self, caller: CommitAuthor, keys: Sequence[KeyPath], judge: Callable[[LakeState], BranchStep]) -> BranchOutcome:
        outcome = self._change(caller, keys, judge)
        if caller.on_done is not None:
            caller.on_done(outcome)
        return outcome

    def _change(self, caller: CommitAuthor, keys: Sequence[KeyPath], judge: Callable[[LakeState], BranchStep]) -> BranchOutcome:
        """⚠ Files of an attempt go only when it is proven that it was lost; an unknown outcome leaves them.

        The commit itself finds a request that has landed before. Only one that the state of now refuses is looked up by itself.
        """
        pointer = self.pointer
        with self._locks.of(pointer, keys):  # writers of one table wait in line here, instead of losing races
            for _ in range(ATTEMPTS_MAX):
                try:
                    step = judge(self.state())
                except HeadwaterError:
                    before = self._done_before(pointer, caller)
                    if before is None:
                        raise
                    return before
                try:
                    return self._commit(pointer, caller, step)
                except CommitConflict as conflict:
                    self._remove(step)
                    if caller.expected_head is not None:
                        raise
                    lost = conflict
                except OutcomeUnknown:
                    raise
                except HeadwaterError:
                    self._remove(step)
                    raise
        raise RequirementFailed(f"Others kept changing the same content: {lost.message}", remedy="Try again.") from lost

    def was_done(self, caller: CommitAuthor) -> bool:
        """Whether a request of the caller's key is in the log."""
        return self._done_before(self.pointer, caller) is not None

    def _commit(self, pointer: str, caller: CommitAuthor, step: BranchStep) -> BranchOutcome:
        headers = {**caller.headers, **step.headers} if caller.headers else step.headers
        request = CatalogCommit(
            self.kernel,
            step.operations,
            CommitMeta(caller.author, step.message, headers),
            request_id=caller.key or caller.request_id,
            expected_head=caller.expected_head or step.expected_head,
            skip_equal_puts=True,
        )
        answer = self.kernel.committer.commit(pointer, request)
        if answer.replayed and answer.logged is not None:  # the first request landed while this one was judged
            self._remove(step)
            return self._replayed(answer.logged)
        self._content_metadata.committed(answer.logged)
        return BranchOutcome(step.answer, answer.logged, self.kernel.realm_name)

    def _done_before(self, pointer: str, caller: CommitAuthor) -> BranchOutcome | None:
        logged = find_request(self.kernel, pointer, caller.key)
        return None if logged is None else self._replayed(logged)

    def _replayed(self, logged: LogRecord) -> BranchOutcome:
        return BranchOutcome(None, logged, self.kernel.realm_name, replayed=True)

    def _remove(self, step: BranchStep) -> None:
        for location in step.written:
            self.metadata.remove(location)


def as_table(key: KeyPath, found: ContentEntry | None) -> ContentEntry:
    if found is None or found.type != TABLE:
        raise TableNotFound(f"Table does not exist: {shown(key)}", field="table")
    return found


def as_view(key: KeyPath, found: ContentEntry | None) -> ContentEntry:
    if found is None or found.type != VIEW:
        raise ViewNotFound(f"View does not exist: {shown(key)}", field="view")
    return found


_KINDS = {NAMESPACE: "Namespace", TABLE: "Table", VIEW: "View"}


def shown(key: KeyPath) -> str:
    return ".".join(key)
