"""The snapshots of a table that is being built, with their branches, tags, statistics and log; each step at a constant cost."""

from __future__ import annotations

from collections import defaultdict

from headwater.service.iceberg.metadata.shapes import Plain, malformed

MAIN = "main"
STATISTICS = ("statistics", "partition-statistics")


class TableSnapshots:
    def __init__(self, base: Plain) -> None:
        self.by_id: dict[int, Plain] = {one["snapshot-id"]: one for one in base["snapshots"]}
        self.added: set[int] = set()
        self.refs: dict[str, Plain] = dict(base["refs"])
        self._refs_at: defaultdict[int, set[str]] = defaultdict(set)
        for name, ref in self.refs.items():
            self._refs_at[ref["snapshot-id"]].add(name)
        self._log: list[Plain] = list(base["snapshot-log"])
        self._log_start = 0
        self._last_in_log: dict[int, int] = {one["snapshot-id"]: at for at, one in enumerate(self._log)}
        self._statistics: dict[str, dict[int, Plain]] = {
            name: {one["snapshot-id"]: one for one in base[name]} for name in STATISTICS
        }

    def write_to(self, made: Plain) -> None:
        made["snapshots"] = list(self.by_id.values())
        made["refs"] = self.refs
        made["snapshot-log"] = self._log[self._log_start :]
        for name in STATISTICS:
            made[name] = list(self._statistics[name].values())

    def add(self, snapshot_id: int, given: Plain) -> None:
        self.by_id[snapshot_id] = given
        self.added.add(snapshot_id)

    def remove(self, ids: set[int]) -> list[str]:
        """The branches and tags that went with them. The log keeps what came after the newest of them: before it has a hole."""
        gone = [name for id in ids for name in sorted(self._refs_at[id])]
        for name in gone:
            self.remove_ref(name)
        for id in ids:
            del self.by_id[id]
            for statistics in self._statistics.values():
                statistics.pop(id, None)
            self._log_start = max(self._log_start, self._last_in_log.get(id, -1) + 1)
        return gone

    def set_ref(self, name: str, ref: Plain) -> None:
        self.remove_ref(name, is_replaced=True)
        self.refs[name] = ref
        self._refs_at[ref["snapshot-id"]].add(name)

    def remove_ref(self, name: str, *, is_replaced: bool = False) -> None:
        old = self.refs.get(name) if is_replaced else self.refs.pop(name, None)
        if old is not None:
            self._refs_at[old["snapshot-id"]].discard(name)

    def log(self, snapshot_id: int, at_ms: int) -> None:
        self._last_in_log[snapshot_id] = len(self._log)
        self._log.append({"snapshot-id": snapshot_id, "timestamp-ms": at_ms})

    def set_statistics(self, name: str, new: Plain) -> None:
        """The newest of a snapshot stands last."""
        self._statistics[name].pop(new["snapshot-id"], None)
        self._statistics[name][new["snapshot-id"]] = new

    def remove_statistics(self, name: str, snapshot_id: int) -> None:
        if self._statistics[name].pop(snapshot_id, None) is None:
            raise malformed(f"There are no {name} of snapshot {snapshot_id}.", name)


def removed_snapshots(before: Plain, after: Plain) -> list[int]:
    left = {one["snapshot-id"] for one in after["snapshots"]}
    return [one["snapshot-id"] for one in before["snapshots"] if one["snapshot-id"] not in left]
