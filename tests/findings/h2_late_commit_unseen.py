"""A commit that waited 7.5 s for SQLite's write lock is acknowledged and must be seen by another process's feed.

Exits 1 while the defect is there, 0 when it is not. Run from the project's root: .venv/bin/python tests/findings/h2_late_commit_unseen.py
"""

import os
import sqlite3
import sys
import tempfile
import threading
import time

import headwater
from headwater import IcebergTable, Put

folder = tempfile.mkdtemp()
path = os.path.join(folder, "x.db")
url = f"sqlite:///{path}"
writer = headwater.open(url, create=True)
main = writer.ensure_realm().ensure_catalog("lake").branch()
main.commit([Put(("t",), IcebergTable("s3://t/1"))])
reader = headwater.open(url)
feed = reader.realm().feed
print("the reader sees", feed._watch.head(main.pointer).seq)
time.sleep(0.5)
# Another process holds SQLite's write lock for 7.5 s; the commit waits for it (busy_timeout is 10 s).
other = sqlite3.connect(path, isolation_level=None)
other.execute("BEGIN IMMEDIATE")
results = []
thread = threading.Thread(target=lambda: results.append(main.commit([Put(("late",), IcebergTable("s3://late/1"))])))
began = time.monotonic()
thread.start()
time.sleep(7.5)
other.execute("ROLLBACK")
thread.join()
seq = results[0].seq
print("acknowledged seq", seq, "after", round(time.monotonic() - began, 1), "s")
seen = feed._watch.wait(main.pointer, seq - 1, 10.0).seq
print("the reader sees", seen, "| fresh:", feed._watch._is_fresh())
writer.close()
reader.close()
sys.exit(0 if seen == seq else 1)
