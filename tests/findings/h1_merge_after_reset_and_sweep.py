"""After expiry and sweep a merge brings reverted data back, silently: the branch that it first came by lives on, but was assigned
to main.

Run from the project's root: .venv/bin/python tests/findings/h1_merge_after_reset_and_sweep.py
Exits with 1 if the defect is there, with 0 if it is not.
"""

import os
import sys

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import MergeBaseExpired
from headwater.streaming.expire.expire import Expiry
from headwater.streaming.expire.retention import parse_retention
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import sweep_store

HOUR, DAY = 3_600, 86_400


def main_after_merging_again(*, maintained: bool) -> str:
    """What `main` holds after a merge of what was merged and taken back, or that the merge was refused."""
    clock = ManualClock()
    engine = headwater.open("memory://", create=True, clock=clock)
    lake = engine.ensure_realm().ensure_catalog("lake")

    def put(branch: str, value: str) -> None:
        clock.move(HOUR)
        lake.branch(branch).commit([Put(("k",), IcebergTable(value))])

    put("main", "A")
    lake.create_branch("f")
    lake.create_branch("dev")
    put("f", "B")
    clock.move(60)
    lake.merge("f", "dev")
    clock.move(60)
    lake.merge("dev", "main")
    put("main", "A")
    clock.move(60)
    lake.references.assign("dev", "main", meta=CommitMeta("x"))
    if maintained:
        clock.move(40 * DAY)
        put("main", "A2")
        put("main", "A")
        kernel = engine.realm().kernel
        Expiry(kernel, parse_retention("*=30d")).run()
        clock.move(DAY)
        report, _ = sweep_store(engine.store, [kernel.realm])
        purged = sum(counted.purged for types in report.counts.values() for counted in types.values())
        if not purged:
            print("the sweep deleted nothing: this script cannot show anything.")
            sys.exit(2)
        engine.store.cache.clear()
    try:
        lake.merge("f", "main")
    except MergeBaseExpired:
        return "refused"
    finally:
        (entry,) = lake.snapshot("main")
        engine.close()
    return str(entry.value["metadata_location"])


before, after = main_after_merging_again(maintained=False), main_after_merging_again(maintained=True)
print(f"main after the merge: {before}; after expiry, sweep and the merge: {after}")
sys.exit(0 if before == "A" and after in ("A", "refused") else 1)
