"""A commit that waited 7.5 s for SQLite's write lock is acknowledged and never seen by another process's feed, which calls itself fresh.

Run from the project's root: .venv/bin/python tests/findings/h2_late_commit_unseen.py  (internal names are those of the version it was found in.)
"""

import os
import sqlite3
import tempfile
import threading
import time

import headwater
from headwater import IcebergTable, Put

p = os.path.join(tempfile.mkdtemp(), "x.db")
url = f"sqlite:///{p}"
A = headwater.open(url, create=True)
mA = A.ensure_realm().ensure_catalog("lake").branch()
mA.commit([Put(("t",), IcebergTable("s3://t/1"))])
B = headwater.open(url)
rB = B.realm()
mB = rB.catalog("lake").branch()
ptr = mA.pointer if hasattr(mA, "pointer") else "cat/1/heads/main"
w = rB.feed._watch
print("B sees", w.head(ptr).seq)
time.sleep(0.5)
# somebody (a third process) holds SQLite's write lock for 7.5 s; A's commit waits for it (busy_timeout is 10 s)
raw = sqlite3.connect(p, isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
res = []
t0 = time.time()
th = threading.Thread(target=lambda: res.append(mA.commit([Put(("late",), IcebergTable("s3://late/1"))])))
th.start()
time.sleep(7.5)
raw.execute("ROLLBACK")
th.join()
print("A acknowledged seq", res[0].seq, "after", round(time.time() - t0, 1), "s")
for wait in (1, 2, 2):
    time.sleep(wait)
    print(
        "B's head:",
        w.head(ptr).seq,
        "fresh:",
        w._is_fresh(),
        "| strong read:",
        B.store.backend.read_pointer(rB.kernel.realm, ptr).seq,
    )
t = time.time()
h = w.wait(ptr, 2, 1.5)
print("B long-poll after seq 2 ->", h.seq, round(time.time() - t, 1), "s")
page = rB.feed.page(ptr, rB.feed.start(ptr, "2"), wait_seconds=0.5)
print("B page after 2:", len(page.frame.changes), "changes")
A.close()
B.close()
