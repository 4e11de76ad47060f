"""A store is put back to a backup and `publish --restart` publishes it again; the retained set that reads Kafka then takes entries of
the lost history for those of the log, and `sweep --stream` deletes objects that the head of main still reaches.

Both histories are in the topic under the same seqs. Of two different entries of one seq in a batch one is dropped by
dropDuplicates(pointer, seq); only the last entry's id and that of the set's end are compared. Docs (publisher.md, maintenance.md)
name exactly these steps as the way on.

Exits 1 if an object that a kept state needs is gone (or would go) after the sweep, 0 if nothing is lost, 2 if it could not run.
Run from the project's root: .venv/bin/python tests/findings/n1_restored_store_kafka_set_sweeps_live.py   (Java; about 90 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Names of flags and helpers are those of the version it was found in.)
"""

import atexit
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.cli_runs import headwater as cli
from tests.support.servers.spark_session import SMALL

folder = tempfile.mkdtemp(prefix="hw-n1-")
os.chmod(folder, 0o755)
atexit.register(shutil.rmtree, folder, ignore_errors=True)
kafka = os.environ.get("HEADWATER_KAFKA", "")
if not kafka:
    dev = [sys.executable, "-m", "headwater", "--set", f"dev_dir={folder}/dev", "dev"]
    if subprocess.run([*dev, "up", "kafka"], stdout=subprocess.DEVNULL).returncode:
        print("could not run: Kafka does not start here; name a broker with HEADWATER_KAFKA=host:port")
        sys.exit(2)
    atexit.register(lambda: subprocess.run([*dev, "down", "--delete", "kafka"], stdout=subprocess.DEVNULL))
    kafka = subprocess.run([*dev, "url", "kafka"], check=True, capture_output=True, text=True).stdout.strip()

db, url = f"{folder}/lake.db", f"sqlite:///{folder}/lake.db"
flags = ["--store", url, "--set", f"kafka_bootstrap={kafka}", "--set", f"maintenance_dir={folder}/sets"]
for name, value in SMALL.items():
    flags += ["--set", f"{name}={value}"]
HOUR, start = 3_600, int((time.time() - 20 * 86_400) * 1e6)


def run(*arguments):
    done = cli(*flags, *arguments)
    print("$ headwater", *arguments, "->", done.code, done.err.strip()[-200:], flush=True)
    return done


def write(hours, tables, create=False):
    """By a clock that is set back, so that the grace of the sweep is over."""
    with headwater.open(url, create=create, clock=ManualClock(start + int(hours * HOUR * 1e6))) as engine:
        main = engine.ensure_realm().ensure_catalog("lake").branch()
        for table in tables:
            engine.store.clock.move(60)
            result = main.commit([Put((table,), IcebergTable(f"s3://lake/{table}.json"))])
        return result.seq


def keys():
    with headwater.open(url) as engine:
        return sorted(entry.key[0] for entry in engine.realm().catalog("lake").snapshot("main"))


write(0, [f"old{n}" for n in range(3)], create=True)
assert run("publish", "--once").code == 0
assert run("maintain", "retained", "--realm", "default", "--kafka").code == 0  # the set knows all that is there now
write(24, ["between"])  # not in the set yet
with sqlite3.connect(db) as live, sqlite3.connect(f"{folder}/backup.db") as copy:
    live.backup(copy)
lost = write(48, ["lost1", "lost2", "lost3"])
assert run("publish", "--once").code == 0
for suffix in ("", "-wal", "-shm"):  # the disk dies; the backup is put in place
    if os.path.exists(db + suffix):
        os.remove(db + suffix)
shutil.copy(f"{folder}/backup.db", db)
now = write(72, [f"new{n}" for n in range(6)])
assert now > lost
print("publish over it is refused, as promised:", run("publish", "--once").code)
assert run("publish", "--restart", "default").code == 0  # what the alarm's remedy says
assert run("publish", "--once").code == 0
before = keys()
assert run("maintain", "retained", "--realm", "default", "--kafka").code == 0
swept = run("maintain", "sweep", "--realm", "default", "--stream", "--grace", "300")
print(swept.out[-1200:])
checked = run("maintain", "check", "--realm", "default")
try:
    after = keys()
except Exception as error:
    after = f"{type(error).__name__}: {error}"
print("main before the sweep:", before)
print("main after the sweep: ", after)
if checked.code != 0 or after != before:
    print("DEFECT: the sweep deleted what the head of main reaches:", checked.err.strip()[-300:])
    sys.exit(1)
print("closed: nothing was lost")
