"""Archives the log again and again, as `headwater maintain archive` does; two of them take over from each other."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken, CursorReset, HeadwaterError
from headwater.streaming.archive import archive
from headwater.streaming.archive.archive_targets import DATA, MANIFESTS, Manifest, ParquetArchive
from headwater.streaming.sources.log_offsets import offset_of_text
from tests.simulation.promises import broken
from tests.simulation.world import spark
from tests.simulation.world.environment import REALM, Environment

PATH = "simulated://archive-"
LEASE_SECONDS = 10.0
POINTERS = ("cat/1/heads/main", "cat/1/heads/dev", "cat/1/heads/f")


def install() -> None:
    """Spark's own queries; the archive's protocol is the product's."""
    archive.run_until_caught_up = spark.run_until_caught_up  # type: ignore[assignment]
    archive.pointer_batches = spark.pointer_batches  # type: ignore[assignment]
    archive._behind = spark.behind  # type: ignore[assignment]


class Archiver:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)
        files: spark.Files = env.shared.setdefault("files", spark.Files())
        files.on_change = self._check_files
        self._files = files
        self._begun: list[int] = env.shared.setdefault("archives", [0])
        """How often the store had been restored when each archive was begun; the last is written."""

    @property
    def _path(self) -> str:
        return f"{PATH}{len(self._begun)}"

    def work(self) -> None:
        engine = self._env.open()
        stores = self._env.shared.setdefault("stores", {})
        stores[self.name] = engine.store
        archive.opened_store = lambda url: stores[self._env.scheduler.process.name]  # type: ignore[assignment]
        while True:
            self._env.scheduler.sleep(self._chance.choice((0.3, 1.0, 3.0)))
            path = self._path
            try:
                session = spark.FakeSpark(self._env, engine.realm(REALM).kernel)
                archive.archive_log(
                    session,  # type: ignore[arg-type]
                    ParquetArchive(session, path),  # type: ignore[arg-type]
                    store="simulated",
                    realm=REALM,
                    reader=archive.reader_of(path),
                    changes_per_batch=4,
                    lease_seconds=LEASE_SECONDS,
                )
                self._env.happened["archived"] += 1
            except (CursorReset, ChainBroken) as error:
                self._env.happened[f"archive {type(error).__name__}"] += 1
                self._begin_another(path, error)
            except HeadwaterError as error:
                self._env.happened[f"archive {type(error).__name__}"] += 1

    def _begin_another(self, path: str, error: HeadwaterError) -> None:
        """As the remedy says; it must have a reason."""
        if self._begun[-1] == self._env.model.restores and path == self._path:
            broken("archive", f"{path} is refused for no reason: {error}")
        if path == self._path:
            self._begun.append(self._env.model.restores)

    # ── what must hold ──────────────────────────────────────────────────────────────────────────────────────

    def _manifests(self, archive_path: str) -> list[Manifest]:
        paths = sorted(path for path in self._files.by_path if path.startswith(f"{archive_path}/{MANIFESTS}/"))
        return [msgspec.json.decode(self._files.by_path[path].content, type=Manifest) for path in paths]

    def _check_files(self) -> None:
        """At every change of a file: each archive is whole up to where it says, and of one history."""
        for number in range(1, len(self._begun) + 1):
            self._check_archive(f"{PATH}{number}")

    def _check_archive(self, archive_path: str) -> None:
        manifests = self._manifests(archive_path)
        if not manifests:
            return
        rows: dict[str, list[Change]] = {}
        for manifest in manifests:
            for path in self._files.under(f"{archive_path}/{manifest.folder}"):
                change = self._files.by_path[path].content
                rows.setdefault(change.pointer, []).append(change)
        for pointer, at in offset_of_text(manifests[-1].position).pointers.items():
            changes = sorted(rows.get(pointer, []), key=lambda change: change.seq)
            seqs = [change.seq for change in changes]
            if not seqs or seqs != list(range(seqs[0], at.seq + 1)):
                broken("archive", f"it says that it reaches entry {at.seq} of {pointer}, and holds {seqs[:3]} … {seqs[-3:]}")

            previous: dict[str, str] = self._env.shared["previous"]
            for one, two in pairwise(changes):
                if previous[two.entry_id] != one.entry_id:
                    broken("archive", f"entries {one.seq} and {two.seq} of {pointer} in it are of two histories")

    def is_done(self) -> bool:
        manifests = self._manifests(self._path)
        reached = offset_of_text(manifests[-1].position).pointers if manifests else {}
        return all(pointer in reached and reached[pointer].seq >= len(log) for pointer, log in self._logs())

    def check(self) -> None:
        if not self.is_done():
            broken("archive", "it does not reach the heads")

    def _logs(self) -> list[tuple[str, list[object]]]:
        found = [(pointer, self._env.model.logs.get((self._env.realm_instance, pointer), [])) for pointer in POINTERS]
        return [(pointer, list(log)) for pointer, log in found if log]


__all__ = ["DATA", "Archiver", "install"]
