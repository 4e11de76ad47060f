"""A store is put back to a backup, continues, and is published again with `publish --restart` as the alarm says; a Kafka consumer
group then drops the new entries without a word, because their seq is not beyond what it has acknowledged.

(A new reader, or a live view that is rebuilt, is given the lost history, which comes first in the topic, and then stops with
CHAIN_BROKEN, each time it is started, for as long as the topic keeps both.)

A chain only knows the ids of what it remembers (after a restart: of one entry). What is at or below its seq and unknown counts as
seen. Docs: "Readers that check the chain (seq and entry id) drop what they have seen"; guarantee: "What a topic has lost is said to
its readers, never passed over"; chain.py: "drops what is at or below the last seen entry, after checking that it is the same".

Exits 1 if the reader ends well and has not given out the new entries, 0 if it gives them out or says that the history is another.
Run from the project's root: .venv/bin/python tests/findings/n3_kafka_reader_drops_new_history.py   (Java for Kafka; about 40 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Flags are those of the version it was found in.)
"""

import atexit
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n3-")
os.chmod(folder, 0o755)
atexit.register(shutil.rmtree, folder, ignore_errors=True)
kafka = os.environ.get("HEADWATER_KAFKA", "")
if not kafka:
    dev = [sys.executable, "-m", "headwater", "--set", f"dev_dir={folder}/dev", "dev"]
    subprocess.run([*dev, "up", "kafka"], check=True, stdout=subprocess.DEVNULL)
    atexit.register(lambda: subprocess.run([*dev, "down", "--delete", "kafka"], stdout=subprocess.DEVNULL))
    kafka = subprocess.run([*dev, "url", "kafka"], check=True, capture_output=True, text=True).stdout.strip()
realm, db = f"n3r{os.getpid()}", f"{folder}/lake.db"
flags = ["--store", f"sqlite:///{db}", "--set", f"kafka_bootstrap={kafka}"]


def run(*arguments):
    done = cli(*flags, *arguments)
    print("$ headwater", *arguments, "->", done.code, done.err.strip()[-200:], flush=True)
    return done


def commit(tables, create=False):
    with headwater.open(f"sqlite:///{db}", create=create) as engine:
        main = engine.ensure_realm(realm).ensure_catalog("lake").branch()
        return [main.commit([Put((table,), IcebergTable(f"s3://lake/{table}.json"))]).seq for table in tables]


def subscribed(*group):
    done = run("subscribe", "--kafka", kafka, "--realm", realm, *group, "--pointer", "cat/1/heads/main", "--json")
    changes = [json.loads(line) for line in done.out.splitlines()]
    return done.code, [(one["seq"], one["operations"][0]["key"][0]) for one in changes if one["operations"]]


commit([f"t{n}" for n in range(4)], create=True)
with sqlite3.connect(db) as live, sqlite3.connect(f"{folder}/backup.db") as copy:
    live.backup(copy)
commit([f"lost{n}" for n in range(6)])
assert run("publish", "--once", "--realm", realm).code == 0
print("the group has read and acknowledged:", subscribed("--group", "billing"))
for suffix in ("", "-wal", "-shm"):
    if os.path.exists(db + suffix):
        os.remove(db + suffix)
shutil.copy(f"{folder}/backup.db", db)
new = list(zip(commit(["new0", "new1", "new2"]), ["new0", "new1", "new2"]))
print("refused, as promised:", run("publish", "--once", "--realm", realm).code)
assert run("publish", "--restart", realm).code == 0 and run("publish", "--once", "--realm", realm).code == 0
faults = []
for who, group in {"the group": ("--group", "billing"), "a new reader": ()}.items():
    code, given = subscribed(*group)
    print(f"the log now ends with {new}; {who} was given {given}, exit code {code}")
    if code == 0 and not set(new) <= set(given):
        faults.append(f"{who} was told nothing and got {given[-3:]} instead of {new}")
for fault in faults:
    print("DEFECT:", fault)
if faults:
    sys.exit(1)
print("closed: readers gave them out, or said that this is another history")
