"""A catalog that is dropped and purged takes a subscription over several catalogs with it: reading it is PointerNotFound from then on,
for the living catalogs too, and the delete entries that it had pinned and not read are gone. A server that was running meanwhile
answers otherwise (it has the purged pointer in memory) than one that was started since.

Catalog purge asks for no pins, unlike expiry. Guarantees: "No floor passes a subscription …"; "A reader that history is cut under is told so, and
never skips an entry"; "Workers and servers on one store behave as one".

Exits 1 if the subscription cannot be read on, or the two servers disagree, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/n15_catalog_purge_breaks_subscription.py   (about 25 s)
"""

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.getcwd())
import headwater
from tests.support.fixtures.cli_runs import headwater as cli

folder = tempfile.mkdtemp(prefix="hw-n15-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
url = f"sqlite:///{folder}/lake.db"


def serve():
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    server = subprocess.Popen(
        [sys.executable, "-m", "headwater", "--store", url, "serve", "--dev", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(server.kill)
    for _ in range(1_500):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2)
            break
        except Exception:
            time.sleep(0.2)
    else:
        print("the server is not ready after five minutes")
        sys.exit(2)
    return f"http://127.0.0.1:{port}"


def read(base, pointers):
    """What a page behind the subscription's position shows, without acknowledging it."""
    with headwater.connect(base) as remote:
        realm = remote.realm("default")
        try:
            return [
                (change.pointer, change.seq, change.kind.value)
                for change in realm.reader(pointers, kept, stream=False).changes(follow=False)
            ]
        except Exception as error:
            return f"{type(error).__name__}: {error}"


old = serve()
assert cli("--store", url, "catalog", "create", "doomed").code == 0
with headwater.connect(old) as remote:
    realm = remote.realm("default")
    pointers = [pointer.name for pointer in realm.pointers("cat/")]
    realm.subscription("both").create(pointers, after="latest")
    reader = realm.reader(pointers, "earliest", stream=False)
    list(reader.changes(follow=False))
    kept = reader.cursor
print("subscribed to", pointers)
assert cli("--store", url, "catalog", "drop", "doomed", "--purge", "--yes").code == 0
assert cli("--store", url, "maintain", "purge-realms", "--catalogs").code == 0
with headwater.open(url) as engine:
    engine.realm("default").catalog("lake").branch().commit([headwater.Put(("later",), headwater.IcebergTable("s3://later"))])
new = serve()
time.sleep(1)
answers = {"the server that was running": read(old, pointers), "one that was started since": read(new, pointers)}
for who, answer in answers.items():
    print(f"{who}: {answer}")
with headwater.connect(new) as remote:
    try:
        given = [(change.pointer, change.seq) for change in remote.realm("default").subscription("both").changes(follow=False)]
    except Exception as error:
        given = f"{type(error).__name__}: {error}"
print("the subscription:", given)
if isinstance(given, str) or len(set(map(str, answers.values()))) > 1:
    print("DEFECT: the subscription cannot be read on, and what is told depends on the server")
    sys.exit(1)
print("closed")
