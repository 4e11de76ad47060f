"""The commits topic is deleted and re-created (by hand, or by auto.create.topics) while commits continue: for some seconds the publisher
sends on in the old generation, so the new topic begins in the middle. The next generation then publishes all from the
beginning, and a new reader drops it: it has begun at the middle, and what is below that counts as seen.

Guarantees: "Kafka: a topic that was re-created … opens a new generation …" that holds all; "Poll, events, Kafka … give the log of
every pointer: … none missing". (The test of it makes the topic again while nothing is written.)

Exits 1 if a new reader is not given the log of main and is told nothing, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/n8_topic_made_again_under_load.py   (Java for Kafka; about 60 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Flags are those of the version it was found in.)
"""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.getcwd())
from confluent_kafka.admin import AdminClient, NewTopic

import headwater
from headwater import IcebergTable, Put
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n8-")
os.chmod(folder, 0o755)
atexit.register(shutil.rmtree, folder, ignore_errors=True)
kafka = os.environ.get("HEADWATER_KAFKA", "")
if not kafka:
    dev = [sys.executable, "-m", "headwater", "--set", f"dev_dir={folder}/dev", "dev"]
    subprocess.run([*dev, "up", "kafka"], check=True, stdout=subprocess.DEVNULL)
    atexit.register(lambda: subprocess.run([*dev, "down", "--delete", "kafka"], stdout=subprocess.DEVNULL))
    kafka = subprocess.run([*dev, "url", "kafka"], check=True, capture_output=True, text=True).stdout.strip()
admin = AdminClient({"bootstrap.servers": kafka})


def attempt(number):
    realm, url = f"n8r{os.getpid()}x{number}", f"sqlite:///{folder}/lake{number}.db"
    engine = headwater.open(url, create=True)
    main = engine.ensure_realm(realm).ensure_catalog("lake").branch()
    for n in range(20):
        main.commit([Put((f"t{n}",), IcebergTable(f"s3://t/{n}"))])
    command = [sys.executable, "-m", "headwater", "--store", url, "publish", "--kafka", kafka, "--realm", realm]
    publisher = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    stop = threading.Event()

    def write():
        n = 0
        while not stop.wait(0.05):
            n += 1
            main.commit([Put((f"w{n}",), IcebergTable(f"s3://w/{n}"))])

    writer = threading.Thread(target=write)
    try:
        topic = f"headwater.{engine.realms.get(realm).instance.replace('#', '-')}.commits"
        status = lambda: json.loads(cli("--store", url, "publish", "--status", "--json").out)["generations"]
        deadline = time.monotonic() + 40
        while not status() and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(4)
        writer.start()
        time.sleep(1)
        admin.delete_topics([topic])[topic].result(20)
        made = False
        while not made:
            try:
                admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)])[topic].result(20)
                made = True
            except Exception as error:
                if "ALREADY_EXISTS" in str(error):
                    made = True  # the publisher was faster
                time.sleep(0.02)
        deadline = time.monotonic() + 30
        while status()[0]["number"] < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1)
    finally:
        stop.set()
        if writer.is_alive():
            writer.join()
        publisher.send_signal(signal.SIGTERM)
        publisher.wait(30)
    generation = status()[0]["number"]
    done = cli("--store", url, "publish", "--kafka", kafka, "--once", "--realm", realm)
    head = main.commit([Put(("last",), IcebergTable("s3://last"))]).seq - 1
    engine.close()
    read = cli("subscribe", "--kafka", kafka, "--realm", realm, "--pointer", "cat/1/heads/main", "--json")
    seqs = [json.loads(line)["seq"] for line in read.out.splitlines()]
    whole = seqs == list(range(1, head + 1))
    print(
        f"generation {generation}, publish {done.code}, main ends at {head}; a new reader got {len(seqs)} entries, "
        f"from {seqs[:1]} to {seqs[-1:]}, exit code {read.code} {read.err.strip()[-160:]}",
        flush=True,
    )
    return whole or read.code != 0


for number in range(2):
    if not attempt(number):
        print("DEFECT: entries are missing and nothing was said")
        sys.exit(1)
print("closed, or the race was not met")
