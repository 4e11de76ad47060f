"""Restores the files that a run has deleted, if the storage has kept them: in versioned buckets of S3.

Elsewhere nothing can be restored this way, and it says so: local files are gone, and what Google Cloud Storage and Azure keep
is restored with their own tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from headwater.persistence.store import Store
from headwater.schemas.errors import InvalidInput
from headwater.streaming.files.deleted_keys import kept_keys
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.s3_versions import S3Versions
from headwater.streaming.files.stores.store_options import vendor_of
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.roots import Root, Roots
from headwater.streaming.runs.runs import Run

SAMPLE_MAX = 20
THREADS = 8


class UndoReport(msgspec.Struct, kw_only=True):
    """The result for one root."""

    root: str
    named: int = 0
    """Files that the run has deleted, or was about to delete."""
    there: int = 0
    """Not deleted, or written again: left as they are."""
    restored: int = 0
    """In a dry run: those that would be."""
    lost: int = 0
    reason: str = ""
    """Why files are lost."""
    sample: list[str] = []
    """The first lost files."""


class UndoRun:
    def __init__(
        self,
        store: Store,
        operations: FileOperations,
        options: Mapping[str, str],
        *,
        dry_run: bool = False,
        on_progress: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> None:
        self._store = store
        self._operations = operations
        self._options = options
        self._dry_run = dry_run
        self._progress = on_progress

    def run(self, run: Run, undone: str, roots: Sequence[Root]) -> list[UndoReport]:
        """`InvalidInput` if no root has a list of that run: it deleted nothing, or ran more than thirty days ago."""
        reports = [report for root in roots if (report := self._root(run, undone, root)).named]
        if not reports:
            raise InvalidInput(
                f"no storage root has a list of what run {undone[:100]!r} deleted.",
                field="RUN",
                remedy="Look with `headwater maintain runs`; lists are kept for 30 days.",
            )
        return reports

    def _root(self, run: Run, undone: str, root: Root) -> UndoReport:
        report = UndoReport(root=root.location, sample=[])
        keys = list(dict.fromkeys(kept_keys(self._operations, root.location, undone)))
        if not keys:
            return report
        known = Roots(self._store.backend, self._store.clock)
        Claims(self._store, self._operations.storages).require(root, known.get(root))
        if not self._dry_run:  # ⚠ otherwise the next sweep would delete them again at once
            known.put(root, msgspec.structs.replace(known.get(root), condemned=""))
        report.named = len(keys)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="undo") as pool:
            for key, (is_there, is_back) in zip(keys, pool.map(self._bring_back(run, root), keys), strict=True):
                report.there += is_there
                report.restored += is_back
                if not is_there and not is_back:
                    report.lost += 1
                    report.sample += [key] if len(report.sample) < SAMPLE_MAX else []
                self._progress("files", 1)
        if report.lost:
            report.reason = self._why(root)
        return report

    def _bring_back(self, run: Run, root: Root) -> Callable[[str], tuple[bool, bool]]:
        """For one location: whether it is there, and whether it was restored."""
        versions = self._versions(root)

        def bring_back(location: str) -> tuple[bool, bool]:
            run.check()
            if self._operations.storages.of(location).head(location) is not None:
                return True, False
            if versions is None:
                return False, False
            return False, versions.bring_back(location.partition("://")[2].partition("/")[2], dry_run=self._dry_run)

        return bring_back

    def _versions(self, root: Root) -> S3Versions | None:
        scheme, separator, rest = root.location.partition("://")
        if not separator or vendor_of(scheme) != "s3":
            return None
        return S3Versions(rest.partition("/")[0], self._options)

    def _why(self, root: Root) -> str:
        if self._versions(root) is not None:
            return "the bucket has no older version of them: versioning was off, or its rules have removed them."
        scheme, separator, _ = root.location.partition("://")
        if separator and vendor_of(scheme) in ("gcs", "azure"):
            return "what this storage keeps of deleted files is restored with the vendor's own tools."
        return "files of a disk are gone when they are deleted: bring them back from a backup."
