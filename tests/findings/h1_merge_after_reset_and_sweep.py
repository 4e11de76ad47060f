"""The same where the intermediate branch lives on but was assigned to main.

Run from the project's root: .venv/bin/python tests/findings/h1_merge_after_reset_and_sweep.py  (internal names are those of the version it was found in.)
"""

import os
import sys

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from headwater.streaming.expire.expire import Expiry
from headwater.streaming.expire.retention import parse_retention
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import sweep_store

DAY = 86400


def run(maintain):
    clock = ManualClock()
    E = headwater.open("memory://", create=True, clock=clock)
    lake = E.ensure_realm().ensure_catalog("lake")
    main = lake.branch()
    K = ("k",)

    def put(b, v):
        clock.move(3600)
        return b.commit([Put(K, IcebergTable(v))]).commit_id

    put(main, "A")
    lake.create_branch("f")
    f = lake.branch("f")
    lake.create_branch("dev")
    lake.branch("dev")
    put(f, "B")
    clock.move(60)
    print("f->dev", lake.merge("f", "dev").seq)
    clock.move(60)
    print("dev->main", lake.merge("dev", "main").seq)
    v = lambda: {e.key: e.value["metadata_location"] for e in lake.snapshot("main")}
    print("main after merges", v())
    put(main, "A")
    print("main after the revert", v())
    clock.move(60)
    lake.references.assign(
        "dev", "main", meta=__import__("headwater.producer.commits.commit_meta", fromlist=["x"]).CommitMeta("x")
    )
    if maintain:
        clock.move(40 * DAY)
        put(main, "A2")
        put(main, "A")
        k = E.realm().kernel
        rep = Expiry(k, parse_retention("*=30d")).run()
        print(
            "expired:",
            [(p.pointer, p.floor_before, p.floor_after, p.held_by) for p in rep.pointers if p.pointer.startswith("cat/")],
        )
        clock.move(DAY)
        r, _ = sweep_store(E.store, [k.realm])
        print("purged", sum(c.purged for t in r.counts.values() for c in t.values()), r.failures, r.skipped)
        E.store.cache.clear()
    m = lake.merge("f", "main")
    print("merge f -> main again: change:", m.change and [(o.op, o.key, o.before, o.after) for o in m.change.operations])
    print("RESULT main", v())
    E.close()


print("--- without maintenance")
run(False)
print("--- with expire + sweep")
run(True)
