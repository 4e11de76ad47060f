"""Marks, lists and deletes files in this process.

Memory holds eight bytes and some marks for each file in use and for each file that may go; locations of files that may go wait
on local disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from headwater.streaming.files.deleted_keys import keep_keys
from headwater.streaming.files.file_groups import FileGroup, file_groups, table_folder
from headwater.streaming.files.fingerprints import FingerprintCollector, among, as_array, fingerprint, id_set, one_by_one
from headwater.streaming.files.kinds import FileRef, FoundFile, kind_by_name
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.stores.spilled_files import SpilledFiles
from headwater.streaming.files.sweep.asked_files import Asked, surroundings
from headwater.streaming.files.sweep.candidates import Listed, Sorting
from headwater.streaming.files.sweep.condemned_files import StoredList, read_list, write_list
from headwater.streaming.files.sweep.executors import ListWork, MarkWork, RemovalProof
from headwater.streaming.files.sweep.live_files import LiveFiles
from headwater.streaming.files.sweep.proof import prove_listing
from headwater.streaming.reachability.id_set import IdCollector, IdSet
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.retained.bloom import BloomFilter
from headwater.streaming.retained.retained_filter import build_bloom, lost_by_filter, refuse_overfull

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DAMAGE_TOLD = 100
_FILES = "files"


class LocalExecutor:
    def marks(self, work: MarkWork) -> LocalMarks:
        return LocalMarks(work)


class LocalMarks:
    def __init__(self, work: MarkWork) -> None:
        self.work = work
        self.live = LiveFiles(
            work.operations.storages,
            work.roots,
            work.salt,
            work.clock,
            accept_missing=work.accept_missing,
            safeguards=work.safeguards,
            threads=work.threads,
            cache=work.operations.manifest_cache(work.salt, work.safeguards.cache),
        )
        self.ids = IdCollector().finish()
        self._bloom: BloomFilter | None = None

    @property
    def count(self) -> int:
        return self.live.count

    @property
    def damage(self) -> list[str]:
        return self.live.damage

    @property
    def refused(self) -> Mapping[str, str]:
        return self.live.refused

    def add(self, realm: str, spans: Mapping[str, Span]) -> None:
        self.live.add(self.work.store.backend, realm, spans)

    def prove_cache(self) -> None:
        self.live.prove_cache()

    def finish(self) -> int:
        self.ids = self.live.finish()
        return len(self.ids)

    def use_bloom(self, capacity: int) -> None:
        bloom = build_bloom({_FILES: self.ids}, capacity)
        refuse_overfull(bloom, capacity, len(self.ids))
        self._bloom = bloom

    def probe(self) -> int:
        if self._bloom is None:
            return len(self.ids)
        ids = as_array(self.ids)
        kept = self._bloom.keeps_many(_FILES, ids)
        if not kept.all():
            raise lost_by_filter(_FILES, int(ids[~kept][0]))
        return len(ids)

    def seen(self) -> SeenFiles:
        return SeenFiles(self.ids, self.live.late, self._bloom)

    def list(self, work: ListWork) -> LocalListing:
        return LocalListing(self, work)

    def close(self) -> None:
        self.live.close()


class _Confirmed:
    """In the order of locations."""

    def __init__(self, ids: NDArray[np.int64], salt: bytes) -> None:
        self._ids = frozenset(ids.tolist())
        self._salt = salt

    def __contains__(self, location: object) -> bool:
        return fingerprint(str(location), self._salt) in self._ids


class SeenFiles:
    """Which files of a listing are in use, and which files in use a listing has shown: one byte for each in use."""

    def __init__(self, ids: IdSet, late: Sequence[IdSet], bloom: BloomFilter | None) -> None:
        """`late` were marked after the filter was made."""
        import numpy as np

        self._ids = as_array(ids)
        self._bloom = bloom
        self._shown = [(known, np.zeros(len(known), np.bool_)) for known in (self._ids, *map(as_array, late))]

    def keeps(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return among(self._ids, ids) if self._bloom is None else self._bloom.keeps_many(_FILES, ids)

    def show(self, ids: NDArray[np.int64]) -> None:
        import numpy as np

        for known, shown in self._shown:
            shown[np.searchsorted(known, ids[among(known, ids)])] = True

    def shown(self) -> IdSet:
        import numpy as np

        found = [known[shown] for known, shown in self._shown]
        return id_set(found[0] if len(found) == 1 else np.unique(np.concatenate(found)))


class LocalListing:
    def __init__(self, marks: LocalMarks, work: ListWork) -> None:
        self._marks = marks
        self._live = marks.live
        self._work = work
        self._storages = marks.work.operations.storages
        self._files = SpilledFiles()
        self._confirmed: NDArray[np.bool_] | None = None
        """None means all."""
        self._seen = marks.seen()
        self._judgement = msgspec.structs.replace(work.judgement, protected=tuple(sorted(self._live.protected)))
        self._names = len(self._live.names)
        try:
            self.counts = self._list()
        except BaseException:
            self.close()
            raise

    @property
    def bytes(self) -> int:
        return self._files.bytes

    def _list(self) -> Listed:
        root, asked, operations = self._work.root.location, self._work.asked, self._marks.work.operations
        sorting = Sorting(self._seen.keeps, self._live.names, self._judgement, on_seen=self._see)
        listing = operations.pages(root, threads=self._work.threads, shares=self._work.shares)
        pages = listing if asked is None else asked.below(self._work.root)
        listed = sorting.sort(root, pages, lambda count: self._marks.work.progress("listed", count), self._files)
        if asked is not None:
            self._look_around(listed, asked)
        return listed

    def _see(self, files: Sequence[FoundFile], ids: NDArray[np.int64]) -> None:
        """⚠ Files that an operator names have no age, and a dry run knows no time by the storage's clock."""
        self._seen.show(ids)
        if self._work.asked is None:
            before = 0 if self._work.dry_run else self._work.listed_at
            self._live.listed(files, ids, before)

    def _look_around(self, listed: Listed, asked: Asked) -> None:
        """What a listing of the whole root would have shown."""
        around = surroundings(self._marks.work.operations, self._work.root, self._files)
        listed.spare(around.kept)
        listed.claims = around.claims
        listed.bytes = sum(it.size or 0 for it in asked.refs_below(self._work.root))
        named = (file.size or 0 for file in self._refs())
        self._files.bytes = sum(named)

    def prove(self) -> list[str]:
        root, shown = self._work.root, self._seen.shown()
        below = self._live.unlisted(root.place, shown)
        gone = prove_listing(self._storages, root.location, below, shown, self._judgement.salt, self._work.listed_at)
        return gone[:DAMAGE_TOLD]

    # ── second look ─────────────────────────────────────────────────────────────────────────────────────────

    def confirm(self, earlier: StoredList | None) -> int:
        if earlier is None:
            return len(self._files)
        self._confirmed = among(as_array(read_list(self._storages, earlier)), self._files.all_ids())
        return int(self._confirmed[self._files.going()].sum())

    def confirm_none(self) -> None:
        import numpy as np

        self._confirmed = np.zeros(len(self._files.all_ids()), np.bool_)

    def sample(self) -> list[FileGroup]:
        going = None if self._confirmed is None else _Confirmed(self._files.all_ids()[self._confirmed], self._judgement.salt)
        return file_groups(self._refs(), lambda one: table_folder(self._work.root.location, one), going)

    def write_condemned(self, stem: str) -> StoredList:
        return write_list(self._storages, stem, self._ids())

    def write_confirmed(self, stem: str) -> StoredList:
        if self._confirmed is not None:
            self._files.keep_only(self._confirmed)
        return write_list(self._storages, stem, self._ids())

    def _ids(self) -> IdSet:
        found = FingerprintCollector()
        found.add_many(self._files.ids())
        return found.finish()

    # ── delete ──────────────────────────────────────────────────────────────────────────────────────────────

    def take_off_late(self) -> int:
        judgement = msgspec.structs.replace(self._judgement, protected=tuple(sorted(self._live.protected)))
        if judgement == self._judgement and self._names == len(self._live.names) and not any(self._live.late):
            return len(self._files)
        again = Sorting(one_by_one(self._live.is_late), self._live.names, judgement)
        self._files.take_off(lambda file, found: not again.goes(file, found))
        return len(self._files)

    def keep_keys(self, run: str) -> None:
        keep_keys(self._storages, self._work.root.location, run, (file.location for file in self._files))

    def purge(self, spec: PurgeSpec, proof: RemovalProof) -> PurgeStats:
        """Proves by `spec` alone, which checks more than `proof`."""
        return self._marks.work.operations.purge(self._refs(), spec)

    def close(self) -> None:
        self._files.close()

    def _refs(self) -> Iterator[FileRef]:
        """With the kinds that were given, or else the ones that their names suggest."""
        named = {} if self._work.asked is None else self._work.asked.refs
        for file in self._files:
            yield named.get(file.location) or FileRef(file.location, kind_by_name(file.location), file.size)
