"""`subscribe --kafka --follow` without a group is blind after the commits topic got more partitions: pointers that move to a new
partition are never heard of again, and nothing is said. It stays connected and looks alive.

The reader assigns the partitions that it found when it began, and passes over the `end` records by which the publisher says that
the generation is over. Guarantees: "Poll, events, Kafka … none missing"; publisher.md names more partitions as a supported change.
(With a group, new partitions are noticed when aiokafka refreshes its metadata, up to five minutes later.)

Exits 1 if committed changes do not reach the follower within 40 s and it has not ended with an error either, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/n5_follower_blind_after_partitions_grow.py (Java for Kafka; about 80 s)
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
from confluent_kafka.admin import AdminClient, NewPartitions

import headwater
from headwater import IcebergTable, Put
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n5-")
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
realm, url = f"n5r{os.getpid()}", f"sqlite:///{folder}/lake.db"
engine = headwater.open(url, create=True)
lake = engine.ensure_realm(realm).ensure_catalog("lake")
names = ["main"] + [f"b{n}" for n in range(7)]
for name in names[1:]:
    lake.create_branch(name)


heads = {}


def commit(number):
    for name in names:
        result = lake.branch(name).commit([Put((f"t{number}",), IcebergTable(f"s3://t/{number}"))])
        heads[f"cat/1/heads/{name}"] = result.seq


def publish():
    done = cli("--store", url, "--set", "kafka_partitions=2", "publish", "--kafka", kafka, "--once", "--realm", realm)
    assert done.code == 0, done.err


commit(1)
publish()
command = [sys.executable, "-m", "headwater", "subscribe", "--kafka", kafka, "--realm", realm, "--follow", "--json"]
follower = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
atexit.register(lambda: follower.poll() is None and follower.kill())
seen = {}
threading.Thread(
    target=lambda: [seen.update({one["pointer"]: one["seq"]}) for line in follower.stdout for one in [json.loads(line)]],
    daemon=True,
).start()


def wait_for(seq_of, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and follower.poll() is None:
        late = {pointer: seq for pointer, seq in seq_of.items() if seen.get(pointer, 0) < seq}
        if not late:
            return {}
        time.sleep(0.2)
    return {pointer: seq for pointer, seq in seq_of.items() if seen.get(pointer, 0) < seq}


if wait_for(heads, 60):
    print("the follower did not begin")
    sys.exit(2)
topic = f"headwater.{engine.realms.get(realm).instance.replace('#', '-')}.commits"
admin = AdminClient({"bootstrap.servers": kafka})
admin.create_partitions([NewPartitions(topic, 8)])[topic].result(20)
time.sleep(1)
publish()  # opens the next generation, carries all positions over
commit(2)
publish()
late = wait_for(heads, 40)
code = follower.poll()
print(
    f"8 pointers moved on; not heard of after 40 s: {sorted(late)}; the follower {'still runs' if code is None else f'ended with {code}'}"
)
engine.close()
if late and code is None:
    print("DEFECT: the follower misses changes silently")
    sys.exit(1)
print("closed")
