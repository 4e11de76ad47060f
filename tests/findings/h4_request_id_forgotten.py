"""The same request id must not be committed twice after 1,005 other commits, neither by a warm nor by a cold process.

Exits 1 while the defect is there, 0 when it is not.
Run from the project's root: .venv/bin/python tests/findings/h4_request_id_forgotten.py
"""

import os
import sys
import tempfile
import time

import headwater
from headwater import IcebergTable, Put
from headwater.persistence.store import StoreOptions

p = os.path.join(tempfile.mkdtemp(), "x.db")
url = f"sqlite:///{p}?synchronous=NORMAL"
A = headwater.open(url, create=True, options=StoreOptions(durability="warn"))
lakeA = A.ensure_realm().ensure_catalog("lake")
mA = lakeA.branch()
r = mA.commit([Put(("t",), IcebergTable("s3://t/1"))], request_id="REQ-1")
print("first", r.seq, r.replayed)
# B: another process' store, warm BEFORE the request is repeated: it has looked back already
B = headwater.open(url)
mB = B.realm().catalog("lake").branch()
w = mB.commit([Put(("warm",), IcebergTable("s3://w/1"))], request_id="REQ-warm")
r = mB.commit([Put(("t",), IcebergTable("s3://t/1"))], request_id="REQ-1")
print("B at once:", r.seq, "replayed", r.replayed)
x = mA.commit([Put(("x",), IcebergTable("s3://x/1"))], request_id="REQ-2")
print("A commits REQ-2", x.seq)
t = time.time()
for i in range(1005):
    mA.commit([Put((f"k{i % 50}",), IcebergTable(f"s3://k/{i}"))])
print("1005 others in", round(time.time() - t, 1), "s")
r = mB.commit([Put(("x",), IcebergTable("s3://x/1"))], request_id="REQ-2")
print("B warm, REQ-2 again:", r.seq, "replayed", r.replayed)
C = headwater.open(url)
mC = C.realm().catalog("lake").branch()
r = mC.commit([Put(("t",), IcebergTable("s3://t/1"))], request_id="REQ-1")
print("C cold, REQ-1 again:", r.seq, "replayed", r.replayed)
from collections import Counter

c = Counter(ch.request_id for page in [mC.changes()] for ch in page)
twice = {k: v for k, v in c.items() if v > 1}
print("committed more than once:", twice)
for e in (A, B, C):
    e.close()
sys.exit(1 if twice else 0)
