"""One update request of a table keeps a worker's processor busy for minutes: what it costs grows with the square of its updates.

Each `set-properties` copies all properties so far, each `add-snapshot` compares and copies all snapshots so far; a request may have
10,000 updates. 500 updates took 0.08 s of a processor, 2,000 took 1.1 s, and a request of 10,000 (13 MB) was not answered in 100 s.
Everyone who may write one table can send it, and it continues when its sender has hung up.

Run from the project's root: .venv/bin/python tests/findings/s9_updates_of_one_request_cost_their_square.py  (exits 1 while the defect is there, 0 when it is closed.)
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


def processor_seconds():
    """Of the workers."""
    ticks = 0
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == lake.process.pid:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def cost(updates):
    name = f"t{updates}"
    lake.table("shop", name)
    told = [{"action": "set-properties", "updates": {f"{i}.{j}": "" for j in range(100)}} for i in range(updates)]
    before = processor_seconds()
    lake.iceberg("POST", f"/namespaces/shop/tables/{name}", {"requirements": [], "updates": told}).raise_for_status()
    return processor_seconds() - before


with Lake() as lake:
    lake.namespace("shop")
    cost(100)
    few, many = cost(500), cost(2000)
    print(f"500 updates: {few:.2f} s of a processor; 2,000 updates: {many:.2f} s, {many / max(few, 0.01):.0f} times as much")
end([f"four times the updates cost {many / few:.0f} times as much"] if many > 10 * max(few, 0.05) else [])
