"""The keeper of the tables topic is stuck for good, though it has the store to ask: (a) when the tables topic was deleted to have it
made anew: the group's offsets outlive the keeper's memory; (b) when it was away longer than the commits topic's retention.

Both end in ChainBroken at each start ("entry 9 follows 0"), and `publish --tables` tries again every five seconds without end; every
table of the realm is stale. Guarantee: "Kafka: the topic of the newest state per table equals the snapshots". table_state.py says of
the topic "it is the keeper's only memory", but it resumes from the group's offsets.

Exits 1 if the keeper cannot continue, 0 if the tables topic equals the snapshot afterwards.
Run from the project's root: .venv/bin/python tests/findings/n12_tables_keeper_stuck.py   (Java for Kafka; about 60 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Flags are those of the version it was found in.)
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.getcwd())
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

import headwater
from headwater import IcebergTable, Put
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n12-")
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
admin = AdminClient({"bootstrap.servers": kafka})


def tables_of(topic):
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "n12", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    parts = list(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
    found, ended, deadline = {}, set(), time.monotonic() + 20
    while len(ended) < len(parts) and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.3):
            if message.error() is not None:
                ended.add(message.partition())
            elif len(where := json.loads(message.key())) == 2:
                found[tuple(where[1])] = message.value()
    consumer.close()
    return sorted(key for key, value in found.items() if value is not None)


def scenario(name, spoil):
    realm, url = f"n12{name}{os.getpid()}", f"sqlite:///{folder}/{name}.db"
    flags = [
        "--store",
        url,
        "--set",
        f"kafka_bootstrap={kafka}",
        "--set",
        "kafka_partitions=1",
        "publish",
        "--once",
        "--realm",
        realm,
    ]
    engine = headwater.open(url, create=True)
    main = engine.ensure_realm(realm).ensure_catalog("lake").branch()
    prefix = f"headwater.{engine.realms.get(realm).instance.replace('#', '-')}"
    commit = lambda tables: [main.commit([Put((table,), IcebergTable(f"s3://{table}"))]) for table in tables]
    commit(["a", "b", "c"])
    first = cli(*flags, "--tables")
    if first.code:
        print("nothing could be published:", first.err)
        sys.exit(2)
    commit(["d", "e", "f"])
    spoil(prefix, flags)
    commit(["g"])
    done = [cli(*flags, "--tables") for _ in range(2)][-1]
    wanted = sorted(entry.key for entry in engine.realm(realm).catalog("lake").snapshot("main"))
    engine.close()
    found = tables_of(f"{prefix}.tables")
    print(
        f"{name}: exit code {done.code} {done.err.strip().splitlines()[-1:]}; tables topic {[k[0] for k in found]}, snapshot {[k[0] for k in wanted]}"
    )
    return found == wanted


def tables_deleted(prefix, flags):
    admin.delete_topics([f"{prefix}.tables"])[f"{prefix}.tables"].result(20)
    time.sleep(2)


def retention(prefix, flags):
    assert cli(*flags).code == 0  # published; the keeper is away
    looking = Consumer({"bootstrap.servers": kafka, "group.id": "n12-look"})
    _, high = looking.get_watermark_offsets(TopicPartition(f"{prefix}.commits", 0), timeout=20)
    looking.close()
    cut = TopicPartition(f"{prefix}.commits", 0, high)
    admin.delete_records([cut])[cut].result(20)


kept = [scenario("deleted", tables_deleted), scenario("retention", retention)]
if not all(kept):
    print(
        "DEFECT: the keeper does not continue:",
        dict(zip(["tables topic deleted", "behind the retention"], ["ok" if one else "stuck" for one in kept])),
    )
    sys.exit(1)
print("closed")
