"""Archives the log again and again, as `headwater maintain archive` does; two of them take over from each other."""

from __future__ import annotations

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.archive import archive
from headwater.streaming.archive.archive_targets import DATA, MANIFESTS, Manifest, ParquetArchive
from headwater.streaming.sources.log_offsets import offset_of_text
from tests.simulation.promises import broken
from tests.simulation.world import spark
from tests.simulation.world.environment import REALM, Environment

PATH = "simulated://archive"
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

    def work(self) -> None:
        engine = self._env.open()
        stores = self._env.shared.setdefault("stores", {})
        stores[self.name] = engine.store
        archive.opened_store = lambda url: stores[self._env.scheduler.process.name]  # type: ignore[assignment]
        while True:
            self._env.scheduler.sleep(self._chance.choice((0.3, 1.0, 3.0)))
            try:
                session = spark.FakeSpark(self._env, engine.realm(REALM).kernel)
                archive.archive_log(
                    session,  # type: ignore[arg-type]
                    ParquetArchive(session, PATH),  # type: ignore[arg-type]
                    store="simulated",
                    realm=REALM,
                    changes_per_batch=4,
                    lease_seconds=LEASE_SECONDS,
                )
                self._env.happened["archived"] += 1
            except HeadwaterError as error:
                self._env.happened[f"archive {type(error).__name__}"] += 1

    # ── what must hold ──────────────────────────────────────────────────────────────────────────────────────

    def _manifests(self) -> list[Manifest]:
        paths = sorted(path for path in self._files.by_path if path.startswith(f"{PATH}/{MANIFESTS}/"))
        return [msgspec.json.decode(self._files.by_path[path].content, type=Manifest) for path in paths]

    def _check_files(self) -> None:
        """At every change of a file: the archive is whole up to where it says."""
        manifests = self._manifests()
        if not manifests:
            return
        rows: dict[str, list[Change]] = {}
        for manifest in manifests:
            for path in self._files.under(f"{PATH}/{manifest.folder}"):
                change = self._files.by_path[path].content
                rows.setdefault(change.pointer, []).append(change)
        for pointer, at in offset_of_text(manifests[-1].position).pointers.items():
            seqs = sorted(change.seq for change in rows.get(pointer, []))
            if not seqs or seqs != list(range(seqs[0], at.seq + 1)):
                broken("archive", f"it says that it reaches entry {at.seq} of {pointer}, and holds {seqs[:3]} … {seqs[-3:]}")

    def is_done(self) -> bool:
        manifests = self._manifests()
        reached = offset_of_text(manifests[-1].position).pointers if manifests else {}
        return all(pointer in reached and reached[pointer].seq >= len(log) for pointer, log in self._logs())

    def check(self) -> None:
        if not self.is_done():
            broken("archive", "it does not reach the heads")

    def _logs(self) -> list[tuple[str, list[object]]]:
        found = [(pointer, self._env.model.logs.get((self._env.realm_instance, pointer), [])) for pointer in POINTERS]
        return [(pointer, list(log)) for pointer, log in found if log]


__all__ = ["DATA", "Archiver", "install"]
