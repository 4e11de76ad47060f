"""An archive run that sleeps (GC, a suspended machine) between writing its files and its manifest wakes up and names files that its
successor has removed as unfinished: the archive cannot be read any more, says that it is complete, and lets the log forget.

The lease is looked at before a batch is written, not before the manifest; the successor removes stray folders as soon as it has
the lease. Then `kept_for` moves the reader's pin on, so that the expiry may take the only copy. Guarantees: "two processes never write
one archive"; "An archive holds each Change once and without a gap"; invariant: "Whoever slept past the end of its lease asks the
store before it deletes or writes on".

Exits 1 if the archive says that it reaches the head and cannot be read whole, 0 if not, 2 if it could not run.
Run from the project's root: .venv/bin/python tests/findings/n11_archive_names_removed_files.py   (Java; about 60 s)
(Internal names are those of the version it was found in.)
"""

import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from headwater.persistence.coordination.work_leases import WorkLeases
from headwater.streaming.archive.archive import archive_log, lease_key
from headwater.streaming.archive.archive_targets import ParquetArchive
from tests.support.servers.spark_session import shared_spark

folder = tempfile.mkdtemp(prefix="hw-n11-")
url, path = f"sqlite:///{folder}/lake.db", f"{folder}/archive"
engine = headwater.open(url, create=True)
main = engine.ensure_realm().ensure_catalog("lake").branch()
for n in range(5):
    main.commit([Put((f"t{n}",), IcebergTable(f"s3://t/{n}"))])
try:
    spark = shared_spark()
except Exception as error:
    print(f"could not run: no Spark session opens here (Java is needed): {error}")
    sys.exit(2)
leases = WorkLeases(engine.store.backend, engine.store.clock)
key = lease_key(engine.realms.get("default").instance, "archive")
target, events = ParquetArchive(spark, path), []
write_new = target._files.write_new


def sleeps_first(*arguments):
    """The process sleeps here for longer than its lease. Meanwhile another one takes the lease and begins as `archive_log` does."""
    if not events:
        assert leases.take(key, "successor", leases.look(key)) is not None
        events.append(f"the successor removed {ParquetArchive(spark, path).remove_unfinished()} unfinished batch")
    return write_new(*arguments)


target._files.write_new = sleeps_first
try:
    archive_log(spark, target, store=url)
    events.append("the sleeper's batch was accepted")
except Exception as error:
    events.append(f"the sleeper ended with {type(error).__name__}: {str(error)[:120]}")
print(*events, sep="\n")
left = ParquetArchive(spark, path)
position = left.position()
seq = 0 if position is None else position.seq_of("cat/1/heads/main")
try:
    rows = left.changes().where("pointer = 'cat/1/heads/main'").count()
except Exception as error:
    rows = f"{type(error).__name__}: {str(error)[:160]}"
print(f"the archive says that it reaches entry {seq} of main; rows of main in it: {rows}")
engine.close()
shutil.rmtree(folder, ignore_errors=True)
if rows != seq:
    print("DEFECT: the archive names files that are gone")
    sys.exit(1)
print("closed")
