"""A store is put back to a backup while a process continues running (an embedded engine, one of several servers): its next commit is
acknowledged onto a history that is gone, and from then on the log is broken for everybody: the new head's predecessor is not
in the store, and what others have committed since the restore is no longer reachable.

The compare-and-swap compares the row's version alone. After the restore others have moved the row to the very version that the
process remembers, so its move is taken, with a predecessor that the restore has removed. A process that remembers such a head also
serves it as fresh. PostgreSQL that fails over to a standby that lacks the last commits does the same to servers that reconnect.
Guarantees: "Writers of one pointer lose nothing, double nothing and reorder nothing"; "The chain proves itself".
(Comparing the head's entry id in the same statement, beside the version, would refuse it.)

Exits 1 if acknowledged commits are gone from the log or the log cannot be read, 0 otherwise (also if the commit is refused).
Run from the project's root: .venv/bin/python tests/findings/n7_restore_under_running_process.py   (about 5 s)
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from headwater.schemas.errors import HeadwaterError

folder = tempfile.mkdtemp(prefix="hw-n7-")
db, url = f"{folder}/lake.db", f"sqlite:///{folder}/lake.db"
put = lambda table: [Put((table,), IcebergTable(f"s3://lake/{table}.json"))]
OTHER = """
import sys, headwater
from headwater import IcebergTable, Put
with headwater.open(sys.argv[1]) as engine:
    main = engine.realm().catalog("lake").branch()
    for n in range(4):
        print(main.commit([Put((f"other{n}",), IcebergTable(f"s3://lake/other{n}.json"))]).seq)
"""


def copy(source, target):
    """SQLite's own online backup, both ways."""
    with sqlite3.connect(source) as one, sqlite3.connect(target) as two:
        one.backup(two)
    one.close()
    two.close()


running = headwater.open(url, create=True)  # continues running
main = running.ensure_realm().ensure_catalog("lake").branch()
main.commit(put("first"))
copy(db, f"{folder}/backup.db")
for n in range(4):
    main.commit(put(f"lost{n}"))
copy(f"{folder}/backup.db", db)  # restored in place: lost0 … lost3 are gone, as expected
others = subprocess.run([sys.executable, "-c", OTHER, url], check=True, capture_output=True, text=True).stdout.split()
print("another process has committed entries", others)
try:
    landed = main.commit(put("after"))
    print("the process that continued running: its commit is acknowledged as entry", landed.seq)
except HeadwaterError as error:
    print("refused:", type(error).__name__, error)
running.close()
faults = []
with headwater.open(url) as engine:
    fresh = engine.realm().catalog("lake")
    try:
        keys = sorted(entry.key[0] for entry in fresh.snapshot("main"))
        print("state:", keys)
        if not {f"other{n}" for n in range(4)} <= set(keys):
            faults.append(f"what the other process committed is not in the state: {keys}")
    except Exception as error:
        faults.append(f"the state cannot be read: {type(error).__name__}: {error}")
    try:
        seqs = [
            (change.seq, change.operations[0].key[0] if change.operations else change.kind.value)
            for change in fresh.branch().changes()
        ]
        print("log:", seqs)
        if [name for _, name in seqs if name.startswith("other")] != [f"other{n}" for n in range(4)]:
            faults.append(f"acknowledged entries of the other process are not in the log: {seqs}")
    except Exception as error:
        faults.append(f"the log cannot be read: {type(error).__name__}: {error}")
shutil.rmtree(folder, ignore_errors=True)
for fault in faults:
    print("DEFECT:", fault)
sys.exit(1 if faults else 0)
