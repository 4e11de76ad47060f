"""`webhook send` that is killed before its first delivery was taken skips changes for good when it is started again: the position
where it began (`--after latest`, the default) is kept nowhere, so the next start takes the head of then.

Here: the sender follows; a change comes while the receiver is down; the sender is killed -9 while it tries; receiver and sender
come back: the change is neither delivered nor a dead letter. Promised: "Send every change to URL, in order, each at least once";
guarantee: "A consumer that is killed -9 and started again with its cursor neither skips nor doubles a Change"; "what no receiver takes is in the
dead-letter file".

Exits 1 if the change was lost, 0 if it was delivered or is a dead letter.
Run from the project's root: .venv/bin/python tests/findings/n10_webhook_forgets_where_it_began.py   (about 30 s)
"""

import atexit
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.getcwd())

folder = tempfile.mkdtemp(prefix="hw-n10-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
free = lambda: (lambda s: (s.bind(("127.0.0.1", 0)), s.getsockname()[1], s.close())[1])(socket.socket())
port, hook_port = free(), free()
base, env = f"http://127.0.0.1:{port}", {**os.environ, "HEADWATER_WEBHOOK_SECRET": "whsec_" + "A" * 32}
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


def commit(table):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"""
import headwater
with headwater.connect("{base}") as remote:
    print(remote.realm("default").catalog("lake").branch("main").commit([headwater.Put(("{table}",), headwater.IcebergTable("s3://{table}"))]).seq)""",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def start_sender():
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "headwater",
            "webhook",
            "send",
            "--server",
            base,
            "--branch",
            "main",
            "--follow",
            "--url",
            f"http://127.0.0.1:{hook_port}/",
            "--allow-private",
            "--cursor-file",
            f"{folder}/cursor",
            "--dead-letters",
            f"{folder}/dead",
        ],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


taken = []


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        taken.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["data"]["seq"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


commit("before")
sender = start_sender()  # begins at `latest`
time.sleep(5)
lost = commit("important")  # the receiver is down: connection refused, tried again with pauses
time.sleep(2.5)
sender.send_signal(signal.SIGKILL)
sender.wait()
print(
    "killed while it tried; cursor file there:",
    os.path.exists(f"{folder}/cursor"),
    "; dead letters:",
    os.path.exists(f"{folder}/dead"),
)
receiver = http.server.ThreadingHTTPServer(("127.0.0.1", hook_port), Receiver)
threading.Thread(target=receiver.serve_forever, daemon=True).start()
sender = start_sender()
time.sleep(5)
later = commit("later")
deadline = time.monotonic() + 15
while later not in taken and time.monotonic() < deadline:
    time.sleep(0.2)
sender.send_signal(signal.SIGKILL)
sender.wait()
dead = os.path.exists(f"{folder}/dead") and open(f"{folder}/dead").read()
print(
    f"entries {lost} and {later} were committed while the webhook was set up; the receiver has {taken}; dead letters: {bool(dead)}"
)
if lost not in taken and not dead:
    print("DEFECT: entry", lost, "was skipped silently")
    sys.exit(1)
print("closed")
