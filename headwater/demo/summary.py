"""Compares what all processes of the demo saw with the store, which is opened again and so read from disk."""

from __future__ import annotations

from collections import Counter

import msgspec

from headwater.consumers.clients.chain import Chain
from headwater.demo import checks
from headwater.demo.checks import Check
from headwater.demo.follower import PAGE_CHANGES, branch_pointers
from headwater.demo.journal import JournalEvent
from headwater.demo.maintenance import MaintenanceResult
from headwater.demo.run import DemoResult
from headwater.demo.writer import CATALOG, REALM
from headwater.demo.writer_processes import Killed
from headwater.embedded import CatalogHandle, open_embedded
from headwater.persistence.clock import MICROS
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    store: str
    seconds: float
    writers: int
    changes: int
    kinds: dict[str, int]
    operations: int
    branches: int
    tables: int
    """On main, at the end."""
    conflicts: int
    """Commits that were refused because another writer had been faster; each was read again and repeated."""
    follower_delay_seconds: float
    """The median, from the time in the entry until the follower had it."""
    killed: Killed
    successor_found_it: bool
    """Whether the killed writer's last commit had landed, which only its successor learned."""
    checks: list[Check]
    all_kept: bool
    upkeep: MaintenanceResult | None = None

    @property
    def seconds_in_all(self) -> float:
        return round(self.seconds + (self.upkeep.seconds if self.upkeep else 0.0), 1)


def with_upkeep(summary: Summary, upkeep: MaintenanceResult) -> Summary:
    """Its promises count as the others do."""
    checks = [*summary.checks, *upkeep.checks]
    return msgspec.structs.replace(summary, checks=checks, all_kept=all(check.kept for check in checks), upkeep=upkeep)


def summarize(happened: DemoResult) -> Summary:
    with open_embedded(happened.store) as engine:
        lake = engine.realm(REALM).catalog(CATALOG)
        logs, entries = read_logs(lake), list(lake.snapshot("main"))
        main = logs[lake.branch().pointer]
    verdicts = [
        checks.kill_was_real(happened.killed),
        checks.others_finished(happened.failures),
        checks.nothing_lost(happened.diaries, logs),
        checks.nothing_doubled(logs),
        checks.nothing_invented(happened.diaries, logs, happened.set_up),
        checks.all_or_nothing(happened.killed, happened.found),
        checks.dense_and_chained(logs),
        checks.follower_saw_all(happened.seen, logs),
        checks.state_is_the_sum(main, {entry.key: entry.value for entry in entries}),
    ]
    lines = [line for diary in happened.diaries.values() for line in diary]
    changes = [change for log in logs.values() for change in log]
    delays = sorted(happened.delays_micros)
    return Summary(
        store=happened.store,
        seconds=round(happened.seconds, 1),
        writers=happened.writers,
        changes=len(changes),
        kinds=dict(Counter(str(change.kind) for change in changes)),
        operations=sum(len(change.operations) for change in changes),
        branches=len(logs),
        tables=sum(entry.type == "ICEBERG_TABLE" for entry in entries),
        conflicts=sum(line.event is JournalEvent.REFUSED for line in lines),
        follower_delay_seconds=round(delays[len(delays) // 2] / MICROS, 3),
        killed=happened.killed,
        successor_found_it=any(line.replayed for line in lines),
        checks=verdicts,
        all_kept=all(check.kept for check in verdicts),
    )


def read_logs(lake: CatalogHandle) -> dict[str, list[Change]]:
    """Every branch's whole log, each entry's hash recomputed over the one before."""
    logs: dict[str, list[Change]] = {}
    for pointer in branch_pointers(lake):
        chain, position, log = Chain(pointer, 0), Position(0, b""), logs.setdefault(pointer, [])
        while True:
            page = lake.realm.feed.page(pointer, position, limit=PAGE_CHANGES)
            log += chain.accept(page.frame)
            if page.last.seq >= page.head.seq:
                break
            position = page.last
    return logs
