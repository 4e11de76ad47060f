"""A table of an object store that names a large file makes the server read all of it into memory, several times over.

Local metadata files are refused above 256 MiB, remote ones are not, and any object of the warehouse can be named (s1). One load of a
data file of some gigabytes, by whoever may commit one key, ends the worker; 16 threads may do so at once. Here 300 MB, on moto.

Run from the project's root: .venv/bin/python tests/findings/s20_remote_file_is_read_without_a_bound.py  (exits 1 while the defect is there, 0 when it is closed.)
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
    """Of the largest worker, at most so far."""
    found = 0
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/status") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError:
            continue
        if int(fields["PPid"]) == lake.process.pid:
            found = max(found, int(fields.get("VmHWM", "0 kB").split()[0]) // 1024)
    return found


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
storage = f"http://127.0.0.1:{port}"
moto = subprocess.Popen(
    [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
try:
    for _ in range(300):
        try:
            httpx.put(f"{storage}/lake", timeout=5).raise_for_status()
            break
        except httpx.TransportError:
            time.sleep(0.1)
    httpx.put(f"{storage}/lake/warehouse/data/part-0.parquet", content=b"x" * 300_000_000, timeout=100).raise_for_status()
    options = f"s3.endpoint={storage} s3.region=us-east-1 s3.access-key-id=a s3.secret-access-key=b"
    with Lake(storage_options=options) as lake:
        lake.command("catalog", "create", "remote", "--storage-root", "s3://lake/warehouse")
        seller = lake.principal("seller", ("commit.write", "shop"), catalog="remote")
        lake.iceberg("POST", "/namespaces", {"namespace": ["shop"]}, catalog="remote").raise_for_status()
        content = {"metadata_location": "s3://lake/warehouse/data/part-0.parquet"}
        put = {"op": "put", "key": ["shop", "x"], "type": "ICEBERG_TABLE", "content": content}
        body = {"catalog": "remote", "operations": [put]}
        before = memory_mb()
        print("commit:", lake.http.post("/feed/v1/default/commit", headers=seller, json=body).status_code)
        with lake.http.stream("GET", "/iceberg/v1/remote/namespaces/shop/tables/x", headers=seller) as answer:
            size = answer.headers.get("content-length")
            print("load:", answer.status_code, size, "bytes")
        grown = memory_mb() - before
        print(f"the worker grew by {grown} MB")
finally:
    moto.terminate()
    moto.wait(10)
end([f"300 MB were read into {grown} MB of memory for one load"] if grown > 250 else [])
