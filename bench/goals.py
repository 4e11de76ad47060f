"""The rates and costs that the project promises, and which measures miss them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bench.measures import Measure


class Goal(NamedTuple):
    least: float = float("-inf")
    most: float = float("inf")

    def is_met(self, value: float) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        return f"at least {self.least:,.10g}" if self.most == float("inf") else f"at most {self.most:,.10g}"


def _commits(kind: str, callers_8: float, callers_64: float) -> dict[tuple[str, str, str, str], Goal]:
    return {
        ("commit", kind, "8 callers", "commits/s"): Goal(least=callers_8),
        ("commit", kind, "64 callers", "commits/s"): Goal(least=callers_64),
    }


GOALS: dict[tuple[str, str, str, str], Goal] = {
    **_commits("sqlite", 3_500, 8_000),
    **_commits("postgresql", 1_500, 5_000),
    **_commits("cassandra", 300, 1_000),
    ("commit", "sqlite", "8 callers", "ms, p99"): Goal(most=50),
    ("commit", "postgresql", "8 callers", "ms, p99"): Goal(most=50),
    ("feed", "sqlite, 1 worker", "nothing new, empty page", "req/s"): Goal(least=6_000),
    ("feed", "sqlite, 1 worker", "nothing new, 304", "req/s"): Goal(least=6_000),
    ("feed", "sqlite, 1 worker", "page of 100", "req/s"): Goal(least=2_000),
    ("feed", "sqlite, 1 worker", "commits, 8 clients", "req/s"): Goal(least=2_000),
    ("feed", "sqlite, 1 worker", "commit to event at 200/s, p50", "ms"): Goal(most=10),
    ("grpc", "sqlite, 1 worker", "table by name, gRPC against HTTP", "× rate"): Goal(least=0.5),
    ("grpc", "sqlite, 1 worker", "commits, 8 clients, gRPC against HTTP", "× rate"): Goal(least=0.8),
    ("grpc", "sqlite, 1 worker", "caught up, Subscribe against SSE", "× rate"): Goal(least=1),
    ("grpc", "sqlite, 1 worker", "commit to frame against event", "× time"): Goal(most=1.2),
    ("fan-out", "1,000 readers", "frame against floor", "× CPU time"): Goal(most=1.4),
    ("fan-out", "1,000 readers", "commit against no readers", "× time"): Goal(most=2),
    ("fan-out", "1,000 readers", "short of an entry", "readers"): Goal(most=0),
    ("iceberg", "sqlite, 1 worker", "create, 8 clients", "req/s"): Goal(least=300),
    ("iceberg", "sqlite, 1 worker", "update, 8 clients", "req/s"): Goal(least=500),
    ("iceberg", "sqlite, 1 worker", "load, 8 clients", "req/s"): Goal(least=2_500),
    ("iceberg", "sqlite, 1 worker", "one table, 8 writers", "updates/s"): Goal(least=150),
    ("workers", "postgresql", "two workers", "× one worker"): Goal(least=1.3),
    ("workers", "postgresql", "two servers", "× one worker"): Goal(least=0.9),
    ("workers", "postgresql", "two servers", "smaller share ÷ larger"): Goal(least=0.8),
    ("nessie", "postgresql, 1 worker", "commits, 8 clients", "req/s"): Goal(least=1_300),
    ("nessie", "postgresql, 1 worker", "commits, 8 clients", "ms, p99"): Goal(most=50),
    ("directory", "sqlite, 500,000 tables", "ready from the checkpoint", "s"): Goal(most=1),
    ("directory", "sqlite, 500,000 tables", "by id against by name", "× time"): Goal(most=1.3),
    ("planning", "10,000 files", "planned", "files/s"): Goal(least=20_000),
    ("planning", "10,000 files", "planned", "files/s of one core"): Goal(least=20_000),
    ("planning", "sqlite", "statistics published", "file columns/s"): Goal(least=200_000),
    ("planning", "sqlite", "statistics published", "file columns/s of one core"): Goal(least=200_000),
    ("planning", "sqlite, 1 worker", "bundle of 1,000 relations against as many HTTP loads", "× CPU time"): Goal(most=0.2),
    ("planning", "sqlite, 1 worker", "BeginPlan of 10 inputs against an HTTP commit", "× time"): Goal(most=1.5),
    **{
        ("files", "100,000 files", f"in process, {cache}, against remove_orphan_files", unit): Goal(most=most)
        for cache, most in (("cold", 0.35), ("warm", 0.1))
        for unit in ("× time", "× CPU time")
    },
    ("files", "1,000,000 files", "on Spark, cold, against remove_orphan_files", "× time"): Goal(most=0.7),
    ("files", "1,000,000 files", "on Spark, cold, against remove_orphan_files", "× heap"): Goal(most=0.25),
    **{
        ("file-scale", f"{keys:,} keys", "memory, against the limit", "×"): Goal(most=1)
        for keys in (100_000, 1_000_000, 10_000_000)
    },
    **{
        ("file-costs", "put of one new manifest of 1,000 entries", "more beside a removal", unit): Goal(most=150)
        for unit in ("ms", "core ms")
    },
    ("file-costs", "DROP … PURGE of 10,000 files", "after its hold ends", "s"): Goal(most=30),
    ("files", "prepared S3", "listed", "keys/s of one core"): Goal(least=150_000),
    ("files", "prepared S3", "deleted, against boto3", "× rate"): Goal(least=3),
    ("ids", "one thread", "one by one", "ids/s of one core"): Goal(least=500_000),
    ("publish", "1 process", "catching up", "Changes/s"): Goal(least=20_000),
    ("publish", "1 process", "commit to consumer at 200/s, median", "ms"): Goal(most=80),
    ("maintain", "sqlite, 10,000,000 objects", "driver so far", "MiB"): Goal(most=4_096),
    ("retained", "sqlite, 400,000 Changes", "caught up", "Changes/s"): Goal(least=8_000),
    ("retained", "sqlite, 400,000 Changes", "caught up", "object rows/s"): Goal(least=40_000),
    ("index", "500,000 keys", "written", "bytes/update"): Goal(most=2_500),
    ("scale", "100,000 tables", "written", "bytes/commit"): Goal(most=2_000),
    ("scale", "500,000 tables", "against the smallest", "× CPU time"): Goal(most=1.5),
    ("scale", "1,000,000 entries", "middle against newest page", "× time"): Goal(most=3),
}
"""By suite, subject, name and unit of the measure."""


def goal_of(measure: Measure) -> Goal | None:
    return GOALS.get((measure.suite, measure.subject, measure.name, measure.unit))


def missed(measures: Iterable[Measure]) -> list[tuple[Measure, Goal]]:
    return [(measure, goal) for measure in measures if (goal := goal_of(measure)) and not goal.is_met(measure.value)]
