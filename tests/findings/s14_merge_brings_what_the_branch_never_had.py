"""A merge `from main` at a hash that only another branch has is done, and logged as a merge of main: the log's lineage is wrong.

docs/nessie.md: "Reading at a hash does not ask whether the reference still has that commit in its history; writing does." Merging,
creating and assigning do not ask. Nessie answers REFERENCE_NOT_FOUND. The merge entry's `source` then names a pointer that never
held the commit, for every consumer and for whatever walks the history by it.

Run from the project's root: .venv/bin/python tests/findings/s14_merge_brings_what_the_branch_never_had.py  (exits 1 while the defect is there, 0 when it is closed.)
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


def table(name):
    return {"type": "ICEBERG_TABLE", "metadataLocation": name, "snapshotId": 1, "schemaId": 0, "specId": 0, "sortOrderId": 0}


def commit(branch, key):
    body = {"commitMeta": {"message": key}, "operations": [{"type": "PUT", "key": {"elements": [key]}, "content": table(key)}]}
    answer = lake.http.post(f"/api/v2/trees/{branch}/history/commit", headers=lake.root, json=body).raise_for_status()
    return answer.json()["targetBranch"]["hash"]


with Lake() as lake:
    faults = []
    start = commit("main", "a")
    for name in ("side", "stable"):
        made = {"type": "BRANCH", "name": "main", "hash": start}
        lake.http.post(f"/api/v2/trees?name={name}&type=BRANCH", headers=lake.root, json=made).raise_for_status()
    foreign = commit("side", "only-on-side")
    body = {"fromRefName": "main", "fromHash": foreign, "message": "merge main"}
    answer = lake.http.post("/api/v2/trees/stable/history/merge", headers=lake.root, json=body)
    print("merge of main at a commit of side:", answer.status_code, answer.text[:120])
    if answer.status_code == 200:
        merged = answer.json()["resultantTargetHash"]
        source = lake.http.get(f"/feed/v1/default/commits/{merged}", headers=lake.root).json().get("source")
        print("the log says it came from:", source)
        faults.append(f"a commit that main never had was merged as one of main; the entry's source is {source}")
    body = {"type": "BRANCH", "name": "main", "hash": foreign}
    assigned = lake.http.put("/api/v2/trees/stable", headers=lake.root, json=body)
    print("assign to `main` at a commit of side:", assigned.status_code)
    if assigned.status_code == 200:
        faults.append("a branch was assigned to main at a commit that main never had")
end(faults)
