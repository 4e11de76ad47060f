"""Where the work of a file sweep is done: in this process (local_executor), or on Spark's workers.

The order of the steps, and what refuses them, is in file_sweep alone; an executor marks, lists, compares and deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.removal_intents import RemovalIntent, RemovalIntents
from headwater.persistence.coordination.work_leases import LeaseClaim, WorkLeases
from headwater.persistence.store import Store
from headwater.schemas.errors import MaintenanceSuperseded
from headwater.streaming.files.file_groups import FileGroup
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.asked_files import Asked
from headwater.streaming.files.sweep.candidates import Judgement, Listed
from headwater.streaming.files.sweep.claims import require_claim
from headwater.streaming.files.sweep.condemned_files import StoredList
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.roots import Root
from headwater.streaming.files.sweep.store_marks import REQUEST_SECONDS
from headwater.streaming.reachability.retained_identifiers import Span

Progress = Callable[[str, int], None]


class MarkWork(msgspec.Struct, frozen=True, kw_only=True):
    """What marking needs."""

    store: Store
    operations: FileOperations
    clock: Clock
    salt: bytes
    roots: tuple[str, ...]
    """The places below which files may go."""
    accept_missing: tuple[str, ...]
    safeguards: FileSafeguards
    threads: int
    progress: Progress


class ListWork(msgspec.Struct, frozen=True, kw_only=True):
    """What the listing of one root needs. Its judgement does not include what marking has protected."""

    root: Root
    judgement: Judgement
    listed_at: int
    threads: int = 1
    shares: int = 1
    """Into how many parts a listing in this process is split."""
    asked: Asked | None = None
    dry_run: bool = False


class RemovalProof(msgspec.Struct, frozen=True, kw_only=True):
    """⚠ What must hold before each request that deletes, wherever it is sent from. It only reads: the driver renews."""

    lease: LeaseClaim
    intent: RemovalIntent
    root: str
    claim: bytes

    def require(self, backend: Backend, storages: Storages, clock: Clock) -> None:
        self.lease.require(backend)
        leases = WorkLeases(backend, clock, type=self.lease.type, realm=self.lease.realm)
        if not leases.lasts(self.lease.key, REQUEST_SECONDS):
            raise MaintenanceSuperseded("the lease of this run has ended.", remedy="Nothing more is deleted. Run it again.")
        RemovalIntents(backend, clock, self.intent.holder).require(self.intent, REQUEST_SECONDS)
        require_claim(storages, self.root, self.claim)


class RootListing(Protocol):
    """The files of one root as they were listed, and those among them that may go: first all that are condemned, then only
    those that `confirm` and `take_off_late` leave."""

    @property
    def counts(self) -> Listed: ...

    @property
    def bytes(self) -> int:
        """Total size of what is condemned."""

    def prove(self) -> list[str]:
        """⚠ `MaintenanceRefused` if the listing lacks files in use; returns the first hundred of those that are gone."""

    def confirm(self, earlier: StoredList | None) -> int:
        """Keeps only those that an earlier run has also condemned; without one, all. Returns how many."""

    def confirm_none(self) -> None: ...

    def sample(self) -> list[FileGroup]:
        """A sample of what is condemned, for people."""

    def write_condemned(self, stem: str) -> StoredList:
        """Writes the fingerprints of all that is condemned; `stem` is the location without its suffix."""

    def write_confirmed(self, stem: str) -> StoredList: ...

    def take_off_late(self) -> int:
        """⚠ Spares what was marked since the filter was made. Returns how many files go."""

    def keep_keys(self, run: str) -> None:
        """⚠ Call it before the first of them is deleted."""

    def purge(self, spec: PurgeSpec, proof: RemovalProof) -> PurgeStats: ...

    def close(self) -> None: ...


class FileMarks(Protocol):
    """The fingerprints of all files in use."""

    @property
    def count(self) -> int:
        """Number of marked files; those that several manifests name count several times."""

    @property
    def damage(self) -> list[str]: ...

    @property
    def refused(self) -> Mapping[str, str]:
        """⚠ Place of a root → why nothing below it may go."""

    def add(self, realm: str, spans: Mapping[str, Span]) -> None: ...

    def prove_cache(self) -> None: ...

    def finish(self) -> int:
        """Builds the exact filter of everything marked so far; returns how many files are in use."""

    def use_bloom(self, capacity: int) -> None:
        """⚠ `FilterOverflow` if the filter was sized for far fewer."""

    def probe(self) -> int:
        """⚠ Passes each fingerprint through the filter as it will be used. Returns how many."""

    def list(self, work: ListWork) -> RootListing: ...

    def close(self) -> None: ...


class FileExecutor(Protocol):
    def marks(self, work: MarkWork) -> FileMarks: ...
