"""A pointer that is new since the publisher last worked is not pinned: expiry cuts its history before Kafka has got it, though the
publisher's pins are fresh and hold every other pointer. The topic then says `truncated`, and those changes never reach Kafka.

`published_pins` names only pointers that the publisher has seen; registered readers, in contrast, also hold those they have not.
Guarantee: "No floor passes a subscription, the publisher, a registered job or a live branch's merge base"; publisher.md: maintenance
"does not cut what Kafka has not got, until the pins are older than kafka_pin_hours". (The same happens to all shards but the first
one that writes a pin when a generation begins: pins of the older generation count no more.)

Exits 1 if entries were cut that Kafka had not got, 0 if not, 2 if it could not run.
Run from the project's root: .venv/bin/python tests/findings/n6_expire_cuts_unpublished_pointers.py   (Java for Kafka; about 30 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Flags are those of the version it was found in.)
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n6-")
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
realm, url = f"n6r{os.getpid()}", f"sqlite:///{folder}/lake.db"
flags = ["--store", url, "--set", f"kafka_bootstrap={kafka}"]


def run(*arguments):
    done = cli(*flags, *arguments)
    print("$ headwater", *arguments, "->", done.code, done.err.strip()[-200:], flush=True)
    assert done.code == 0, done.err
    return done


def commit(catalog, count, *, create=False):
    with headwater.open(url, create=create) as engine:
        main = engine.ensure_realm(realm).ensure_catalog(catalog).branch()
        for number in range(count):
            main.commit([Put((f"t{number}",), IcebergTable(f"s3://{catalog}/{number}"))])


commit("known", 2, create=True)
run("publish", "--once", "--realm", realm)
commit("known", 10)  # Kafka is away from here on
commit("new", 10)
expired = json.loads(run("maintain", "expire", "--realm", realm, "--keep", "*=1n", "--yes", "--json").out)
rows = [one for report in expired.get("realms", expired.get("reports", [])) for one in report["pointers"]]
for one in rows:
    if "heads" in one["pointer"]:
        print(one["pointer"], "floor", one["floor_before"], "->", one["floor_after"], "held by", repr(one["held_by"]))
run("publish", "--once", "--realm", realm)  # Kafka is back after some minutes
lines = run("subscribe", "--kafka", kafka, "--realm", realm, "--json").out.splitlines()
got = {}
for change in map(json.loads, lines):
    got.setdefault(change["pointer"], []).append(change["seq"])
print("in Kafka:", {pointer: seqs for pointer, seqs in got.items() if "heads" in pointer})
if got.get("cat/2/heads/main") != list(range(1, 12)):
    print("DEFECT: cat/2/heads/main was cut before it was published; cat/1/heads/main was held")
    sys.exit(1)
print("closed: all is in Kafka")
