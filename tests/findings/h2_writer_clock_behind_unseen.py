"""Commits of a writer whose clock is 7 s behind are never seen by another process.

Run from the project's root: .venv/bin/python tests/findings/h2_writer_clock_behind_unseen.py  (internal names are those of the version it was found in.)
"""

import os
import tempfile
import time

import headwater
from headwater import IcebergTable, Put

p = os.path.join(tempfile.mkdtemp(), "x.db")
url = f"sqlite:///{p}"


class Behind:
    def now_micros(self):
        return time.time_ns() // 1000 - 7_000_000

    def sleep(self, s):
        time.sleep(s)


A = headwater.open(url, create=True)
mA = A.ensure_realm().ensure_catalog("lake").branch()
mA.commit([Put(("t",), IcebergTable("s3://t/1"))])
B = headwater.open(url)
rB = B.realm()
ptr = "cat/1/heads/main"
w = rB.feed._watch
w.head(ptr)
time.sleep(8)
A.store.backend._clock = Behind()  # a host whose clock is 7 s behind
for i in range(3):
    r = mA.commit([Put((f"n{i}",), IcebergTable(f"s3://n/{i}"))])
    time.sleep(1.0)
    print("A committed", r.seq, "B's head", w.head(ptr).seq, "fresh", w._is_fresh())
A.close()
B.close()
