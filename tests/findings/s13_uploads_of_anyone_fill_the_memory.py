"""A principal without any right fills a worker's memory: bodies are kept whole before a right is asked for, without a bound over all.

Each connection may hold `request_bytes_max` (16 MiB) for a minute, and a worker takes 8,192 requests at once: 128 GiB. Forty uploads
that stop before their last bytes are enough to show that nothing adds them up, neither for the caller nor for the worker.

Run from the project's root: .venv/bin/python tests/findings/s13_uploads_of_anyone_fill_the_memory.py  (exits 1 while the defect is there, 0 when it is closed.)
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import httpx

HEADWATER = os.path.join(os.getcwd(), ".venv", "bin", "headwater")
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "long"}]}


class Lake:
    """`headwater serve` on a free loopback port, with a store of its own: realm `default`, catalog `lake` on local files."""

    def __init__(self, **settings):
        self.folder = tempfile.mkdtemp(prefix="headwater-finding-")
        self.store, self.root_folder = f"sqlite:///{self.folder}/lake.db", f"{self.folder}/lake"
        os.makedirs(self.root_folder)
        self.environ = {**os.environ, **{f"HEADWATER_{name.upper()}": value for name, value in settings.items()}}
        self.command("store", "create")
        made = json.loads(self.command("realm", "create", "default", "--init", "--json"))
        self.command("catalog", "create", "lake", "--storage-root", f"file://{self.root_folder}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, timeout=100)
        self.start()
        self.root = self.sign_in(made)

    def start(self):
        self.log = open(f"{self.folder}/serve.log", "ab")
        arguments = [HEADWATER, "--store", self.store, "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(arguments, stdout=self.log, stderr=self.log, env=self.environ)
        for _ in range(600):
            try:
                if self.http.get("/readyz").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"the server did not start: {open(self.log.name).read()[-500:]}")
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *arguments):
        run = [HEADWATER, "--store", self.store, *arguments]
        return subprocess.run(run, check=True, capture_output=True, text=True, env=self.environ).stdout

    def sign_in(self, made, realm="default"):
        form = {"grant_type": "client_credentials", "client_id": made["client_id"], "client_secret": made["client_secret"]}
        answer = self.http.post(f"/manage/v1/{realm}/oauth/tokens", data=form)
        return {"authorization": f"Bearer {answer.raise_for_status().json()['access_token']}"}

    def manage(self, method, path, body=None, who=None, realm="default", **more):
        answer = self.http.request(method, f"/manage/v1/{realm}{path}", json=body, headers=who or self.root, **more)
        return answer if who is not None else answer.raise_for_status()

    def principal(self, name, *grants, catalog="lake"):
        """With a role that is granted (right, path or None) in the catalog; its Authorization header."""
        made = self.manage("POST", "/principals", {"name": name}).json()["credentials"]
        self.manage("POST", "/principal-roles", {"name": f"{name}-role"})
        self.manage("PUT", f"/principal-roles/{name}-role/members/{name}")
        self.manage("POST", f"/catalogs/{catalog}/roles", {"name": f"{name}-role"})
        self.manage("PUT", f"/catalogs/{catalog}/roles/{name}-role/members/{name}-role")
        for right, path in grants:
            where = {"path": path} if path else None
            self.manage("PUT", f"/catalogs/{catalog}/roles/{name}-role/grants/{right}", params=where)
        return self.sign_in(made)

    def iceberg(self, method, path, body=None, who=None, catalog="lake"):
        return self.http.request(method, f"/iceberg/v1/{catalog}{path}", json=body, headers=who or self.root)

    def namespace(self, *names):
        for name in names:
            self.iceberg("POST", "/namespaces", {"namespace": [name]}).raise_for_status()

    def table(self, namespace, name, **more):
        body = {"name": name, "schema": SCHEMA, **more}
        return self.iceberg("POST", f"/namespaces/{namespace}/tables", body).raise_for_status().json()


def end(faults):
    for fault in faults:
        print("DEFECT:", fault)
    print("closed" if not faults else f"{len(faults)} found")
    sys.exit(1 if faults else 0)


def memory_mb():
    """Of the largest worker."""
    found = 0
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/status") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError:
            continue
        if int(fields["PPid"]) == lake.process.pid:
            found = max(found, int(fields.get("VmRSS", "0 kB").split()[0]) // 1024)
    return found


with Lake() as lake:
    nobody = lake.principal("nobody")
    size, connections = 16 * 1024 * 1024 - 1_000, []
    head = (
        "POST /feed/v1/default/commit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: {nobody['authorization']}\r\nContent-Length: {size + 100}\r\n\r\n"
    )
    before, refused = memory_mb(), 0
    for _ in range(40):
        connection = socket.create_connection(("127.0.0.1", lake.port))
        connection.settimeout(10)
        try:
            connection.sendall(head.encode() + b" " * size)
        except OSError:
            refused += 1
        connections.append(connection)
    time.sleep(3)
    after = memory_mb()
    print(f"40 uploads of 16 MiB, {refused} refused: the worker grew from {before} to {after} MB")
    for connection in connections:
        connection.close()
end([f"a principal without rights made the worker hold {after - before} MB"] if after - before > 400 else [])
