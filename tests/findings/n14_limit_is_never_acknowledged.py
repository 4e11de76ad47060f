"""`subscribe --limit N` with a subscription (or a Kafka --group) prints the same N changes again each time it is run: what was printed
last is not acknowledged, so a job that takes its changes in portions never gets anywhere.

consumers.md: "A subscription is made with its first use and acknowledged behind what was printed"; --group: "continue where this consumer group
was, and keep its position". (Behind the last line the generators are closed before they acknowledge.)

Exits 1 if the second run prints what the first one printed, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/n14_limit_is_never_acknowledged.py   (about 20 s)
"""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.getcwd())

folder = tempfile.mkdtemp(prefix="hw-n14-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
probe = socket.socket()
probe.bind(("127.0.0.1", 0))
port = probe.getsockname()[1]
probe.close()
base = f"http://127.0.0.1:{port}"
server = subprocess.Popen(
    [sys.executable, "-m", "headwater", "--store", f"sqlite:///{folder}/lake.db", "serve", "--dev", "--port", str(port)],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
atexit.register(server.kill)
for _ in range(1_500):
    try:
        urllib.request.urlopen(f"{base}/readyz", timeout=2)
        break
    except Exception:
        time.sleep(0.2)
else:
    print("the server is not ready after five minutes")
    sys.exit(2)
import headwater

with headwater.connect(base) as remote:
    main = remote.realm("default").catalog("lake").branch("main")
    for n in range(8):
        main.commit([headwater.Put((f"t{n}",), headwater.IcebergTable(f"s3://{n}"))])


def portion():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "headwater",
            "subscribe",
            "--server",
            base,
            "--branch",
            "main",
            "--subscription",
            "nightly",
            "--after",
            "earliest",
            "--limit",
            "3",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [json.loads(line)["seq"] for line in done.stdout.splitlines()]


runs = [portion() for _ in range(3)]
print("three runs with --limit 3 printed entries", runs)
if runs[1] == runs[0]:
    print("DEFECT: the subscription does not move")
    sys.exit(1)
print("closed")
