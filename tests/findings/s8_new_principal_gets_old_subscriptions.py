"""Who is re-created under a deleted principal's name has its subscriptions: reads, rewinds and deletes them.

A subscription keeps its maker's name and not its id. docs/access.md: "Records name each other by id and not only by name, so
whatever is deleted and re-created under its name inherits nothing", and "a subscription is its maker's".

Run from the project's root: .venv/bin/python tests/findings/s8_new_principal_gets_old_subscriptions.py  (exits 1 while the defect is there, 0 when it is closed.)
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
    carl = lake.principal("carl", ("feed.read", None), ("subscription.manage", None))
    path = "/feed/v1/default/subscriptions/billing"
    body = {"pointers": ["cat/1/heads/main"], "after": "earliest"}
    lake.http.put(path, headers=carl, json=body).raise_for_status()
    lake.manage("DELETE", "/principals/carl")
    made = lake.manage("POST", "/principals", {"name": "carl"}).json()["credentials"]
    lake.manage("POST", "/principal-roles", {"name": "others"})
    lake.manage("PUT", "/principal-roles/others/members/carl")
    lake.manage("POST", "/catalogs/lake/roles", {"name": "others"})
    lake.manage("PUT", "/catalogs/lake/roles/others/members/others")
    lake.manage("PUT", "/catalogs/lake/roles/others/grants/feed.read")
    time.sleep(0.5)
    another = lake.sign_in(made)
    read = lake.http.get(path, headers=another)
    print("the new carl reads the old one's subscription:", read.status_code)
    deleted = lake.http.delete(path, headers=another)
    print("and deletes it:", deleted.status_code)
end(["the subscriptions of a deleted principal are those of the next one of its name"] if read.status_code == 200 else [])
