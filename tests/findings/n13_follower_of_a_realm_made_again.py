"""`subscribe --kafka --follow` continues waiting silently when its realm was purged and re-created under its name: it stays at topics
that are gone, and never hears of the realm's new changes. Readers over HTTP are told `reset`.

The topic is looked up once, when the reader begins. A topic that is deleted under it is asked for without end, and its messages
are switched off. Guarantees: "What a topic has lost is said to its readers, never passed over"; "A dead cursor is a typed error with the way out";
consumers.md: "The topic of a realm is that of its newest instance".

Exits 1 if a follower (with or without a group) neither gets the new changes nor ends within 45 s, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/n13_follower_of_a_realm_made_again.py   (Java for Kafka; about 90 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Flags are those of the version it was found in.)
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n13-")
os.chmod(folder, 0o755)
atexit.register(shutil.rmtree, folder, ignore_errors=True)
kafka = os.environ.get("HEADWATER_KAFKA", "")
if not kafka:
    dev = [sys.executable, "-m", "headwater", "--set", f"dev_dir={folder}/dev", "dev"]
    if subprocess.run([*dev, "up", "kafka"], stdout=subprocess.DEVNULL).returncode:
        print("there is no Kafka: install Java, or name a broker in HEADWATER_KAFKA")
        sys.exit(2)
    atexit.register(lambda: subprocess.run([*dev, "down", "--delete", "kafka"], stdout=subprocess.DEVNULL))
    kafka = subprocess.run([*dev, "url", "kafka"], check=True, capture_output=True, text=True).stdout.strip()
realm, url = f"n13r{os.getpid()}", f"sqlite:///{folder}/lake.db"
flags = ["--store", url, "--set", f"kafka_bootstrap={kafka}", "--set", f"maintenance_dir={folder}/sets"]


def run(*arguments):
    done = cli(*flags, *arguments)
    print("$ headwater", *arguments, "->", done.code, done.err.strip()[-200:], flush=True)
    assert done.code == 0, done.err


def commit(table, create=False):
    with headwater.open(url, create=create) as engine:
        engine.ensure_realm(realm).ensure_catalog("lake").branch().commit([Put((table,), IcebergTable(f"s3://{table}"))])


class Follower:
    def __init__(self, *more):
        command = [
            sys.executable,
            "-m",
            "headwater",
            "subscribe",
            "--kafka",
            kafka,
            "--realm",
            realm,
            "--follow",
            "--json",
            *more,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        atexit.register(lambda: self.process.poll() is None and self.process.kill())
        self.tables = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.tables += [".".join(op["key"]) for op in json.loads(line)["operations"] if op.get("type") == "ICEBERG_TABLE"]

    def wait_for(self, table, seconds):
        deadline = time.monotonic() + seconds
        while table not in self.tables and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        return table in self.tables


commit("old", create=True)
run("publish", "--once", "--realm", realm)
followers = {"alone": Follower(), "in a group": Follower("--group", "billing")}
if not all(one.wait_for("old", 60) for one in followers.values()):
    print("a follower did not begin")
    sys.exit(2)
run("realm", "deactivate", realm)
run("realm", "purge", realm, "--yes")
run("maintain", "purge-realms", realm)
run("realm", "delete", realm, "--yes")
commit("new")
run("publish", "--once", "--realm", realm)
deadline, faults = time.monotonic() + 45, []
for who, follower in followers.items():
    heard = follower.wait_for("new", max(1.0, deadline - time.monotonic()))
    code = follower.process.poll()
    print(f"the follower {who}: heard of the new realm: {heard}; {'still waits' if code is None else f'ended with {code}'}")
    if not heard and code is None:
        faults.append(who)
if faults:
    print("DEFECT: waiting silently for a realm that is gone:", faults)
    sys.exit(1)
print("closed")
