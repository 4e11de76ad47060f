"""Commits of a writer whose clock is 7 s behind must be seen by another process.

Exits 1 while the defect is there, 0 when it is not. Run from the project's root: .venv/bin/python tests/findings/h2_writer_clock_behind_unseen.py
"""

import os
import sys
import tempfile
import time

import headwater
from headwater import IcebergTable, Put


class Behind:
    def now_micros(self) -> int:
        return time.time_ns() // 1000 - 7_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


url = f"sqlite:///{os.path.join(tempfile.mkdtemp(), 'x.db')}"
writer = headwater.open(url, create=True)
main = writer.ensure_realm().ensure_catalog("lake").branch()
main.commit([Put(("t",), IcebergTable("s3://t/1"))])
reader = headwater.open(url)
watch = reader.realm().feed._watch
watch.head(main.pointer)
time.sleep(8)
writer.store.backend._clock = Behind()  # a host whose clock is 7 s behind
unseen = 0
for n in range(3):
    seq = main.commit([Put((f"n{n}",), IcebergTable(f"s3://n/{n}"))]).seq
    seen = watch.wait(main.pointer, seq - 1, 5.0).seq
    print("committed", seq, "| the reader sees", seen, "| fresh:", watch._is_fresh())
    unseen += seen != seq
writer.close()
reader.close()
sys.exit(1 if unseen else 0)
