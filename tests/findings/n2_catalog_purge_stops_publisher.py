"""Purging a dropped catalog stops the publisher for good with a false alarm, and takes entries with it that Kafka never got.

(a) Roles and grants of a catalog get no delete entry; when their pointers are purged, the publisher takes the missing rows for
    a restored backup (STORE_BEHIND_KAFKA) and stops the shard: no pointer of that shard is published any more.
(b) A catalog that is dropped to be purged goes at once, though the publisher's pins say that its delete entries are not in
    Kafka yet: readers of the topic never learn that the branch is gone, and the shard stops as in (a).

Exits 1 if either happens, 0 if the commits made afterwards reach Kafka and the branch's delete entry does.
Run from the project's root: .venv/bin/python tests/findings/n2_catalog_purge_stops_publisher.py   (Java for Kafka; about 30 s)
HEADWATER_KAFKA=host:port uses a broker that runs. (Flags are those of the version it was found in.)
"""

import asyncio
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.getcwd())
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n2-")
os.chmod(folder, 0o755)
atexit.register(shutil.rmtree, folder, ignore_errors=True)
kafka = os.environ.get("HEADWATER_KAFKA", "")
if not kafka:
    dev = [sys.executable, "-m", "headwater", "--set", f"dev_dir={folder}/dev", "dev"]
    subprocess.run([*dev, "up", "kafka"], check=True, stdout=subprocess.DEVNULL)
    atexit.register(lambda: subprocess.run([*dev, "down", "--delete", "kafka"], stdout=subprocess.DEVNULL))
    kafka = subprocess.run([*dev, "url", "kafka"], check=True, capture_output=True, text=True).stdout.strip()


def scenario(name, *, with_role, publish_the_drop):
    realm, url = f"{name}{os.getpid()}", f"sqlite:///{folder}/{name}.db"
    flags = [
        "--store",
        url,
        "--set",
        f"kafka_bootstrap={kafka}",
        "--set",
        "kafka_shards=1",
        "--set",
        f"maintenance_dir={folder}/{name}",
    ]

    def run(*arguments, ok=True, stdin=""):
        done = cli(*flags, *arguments, stdin=stdin)
        print("$ headwater", *arguments, "->", done.code, done.err.strip()[-260:], flush=True)
        assert done.code == 0 or not ok, done.err
        return done

    json.dumps([{"op": "put", "key": ["t"], "type": "ICEBERG_TABLE", "value": {"metadata_location": "s3://lake/t/1.json"}}])
    run("store", "create")
    run("realm", "create", realm, "--init")
    for catalog in ("doomed", "kept"):
        run("catalog", "create", catalog, "--realm", realm)
    if with_role:
        run("role", "create", "reader", "--catalog", "doomed", "--realm", realm)
    run("publish", "--once", "--realm", realm)
    run("catalog", "drop", "doomed", "--realm", realm, "--purge", "--yes")
    if publish_the_drop:
        run("publish", "--once", "--realm", realm)
    run("maintain", "purge-realms", "--catalogs")
    run("catalog", "create", "later", "--realm", realm)  # a change of another pointer: must reach Kafka
    done = run("publish", "--once", "--realm", realm, ok=False)
    status = json.loads(cli(*flags, "publish", "--status", "--json").out)
    from headwater.consumers.kafka.kafka_reader import KafkaReader
    from headwater.consumers.kafka.kafka_source import KafkaSource

    async def read():
        async with KafkaReader(KafkaSource(bootstrap=kafka, realm=realm)) as reader:
            return [(c.pointer, c.seq, str(c.kind)) async for c in reader.changes(follow=False)]

    found = asyncio.run(read())
    faults = []
    if done.code != 0 or status["alarms"]:
        faults.append(f"the publisher has stopped: {[(a['code'], a['message']) for a in status['alarms']] or done.err}")
    if ("cat/1/heads/main", 2, "delete") not in found:
        faults.append(
            f"the delete entry of the branch is not in the topic: {[one for one in found if one[0].startswith('cat/1/heads')]}"
        )
    return faults


faults = {
    "(a) a role in the purged catalog": scenario("roles", with_role=True, publish_the_drop=True),
    "(b) purged before the drop was published": scenario("early", with_role=False, publish_the_drop=False),
}
for what, found in faults.items():
    for fault in found:
        print(f"DEFECT {what}: {fault}")
sys.exit(1 if any(faults.values()) else 0)
