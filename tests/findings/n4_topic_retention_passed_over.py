"""What Kafka's retention has taken from the commits topic is passed over silently: by a group that comes back and meets a pointer
that is new to it, and by every new reader. Neither an error, nor a repair, though a log to repair from was given.

A reader that knows nothing of a pointer begins at whatever record of it comes first; baselines that would tell are gone with the
retention too. Guarantees: "What a topic has lost is said to its readers, never passed over"; "Poll, events, Kafka … give the log
of every pointer: … none missing"; "A Kafka group continues after what it acknowledged …, nothing is missing …".

Exits 1 if changes are missing and nothing was said, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/n4_topic_retention_passed_over.py   (Java for Kafka; about 30 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Internal names are those of the version it was found in.)
"""

import asyncio
import atexit
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.getcwd())
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import headwater
from headwater import IcebergTable, Put
from headwater.consumers.clients.local_transport import AsyncOf, LocalTransport
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n4-")
os.chmod(folder, 0o755)
atexit.register(shutil.rmtree, folder, ignore_errors=True)
kafka = os.environ.get("HEADWATER_KAFKA", "")
if not kafka:
    dev = [sys.executable, "-m", "headwater", "--set", f"dev_dir={folder}/dev", "dev"]
    subprocess.run([*dev, "up", "kafka"], check=True, stdout=subprocess.DEVNULL)
    atexit.register(lambda: subprocess.run([*dev, "down", "--delete", "kafka"], stdout=subprocess.DEVNULL))
    kafka = subprocess.run([*dev, "url", "kafka"], check=True, capture_output=True, text=True).stdout.strip()
realm, url = f"n4r{os.getpid()}", f"sqlite:///{folder}/lake.db"
engine = headwater.open(url, create=True)
lake = engine.ensure_realm(realm).ensure_catalog("lake")
log = AsyncOf(LocalTransport(engine.realm(realm).feed, ["root"]))


def publish():
    done = cli("--store", url, "--set", "kafka_partitions=1", "publish", "--kafka", kafka, "--once", "--realm", realm)
    assert done.code == 0, done.err


def read(group=None):
    """(pointer → seqs, error)"""

    async def reading():
        found = {}
        async with KafkaReader(KafkaSource(bootstrap=kafka, realm=realm, group=group), log=log) as reader:
            async for change in reader.changes(follow=False):
                found.setdefault(change.pointer, []).append(change.seq)
                await reader.acknowledge()
        return found

    try:
        return asyncio.run(reading()), None
    except Exception as error:
        return {}, error


for n in range(5):
    lake.branch().commit([Put((f"a{n}",), IcebergTable(f"s3://a/{n}"))])
publish()
first, _ = read("billing")
print("the group has read and acknowledged main:", first["cat/1/heads/main"])
dev_branch = lake.create_branch("dev")
for n in range(10):
    dev_branch.commit([Put((f"d{n}",), IcebergTable(f"s3://d/{n}"))])
publish()
topic = f"headwater.{engine.realms.get(realm).instance.replace('#', '-')}.commits"
admin = AdminClient({"bootstrap.servers": kafka})
from confluent_kafka import Consumer

looking = Consumer({"bootstrap.servers": kafka, "group.id": "n4-look"})
low, high = looking.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
looking.close()
admin.delete_records([TopicPartition(topic, 0, high - 5)])[TopicPartition(topic, 0, high - 5)].result(20)  # as retention does
print(f"retention: the topic begins at offset {high - 5} instead of {low}")
dev_pointer, log_seqs = "cat/1/heads/dev", list(range(1, 12))
faults = []
for who, (found, error) in {"the group that comes back": read("billing"), "a new reader": read()}.items():
    got = found.get(dev_pointer, [])
    print(f"{who}: dev {got} of {log_seqs}; error: {error!r}")
    if error is None and got != log_seqs:
        faults.append(f"{who} was given {got} of {log_seqs} and told nothing")
engine.close()
for fault in faults:
    print("DEFECT:", fault)
sys.exit(1 if faults else 0)
