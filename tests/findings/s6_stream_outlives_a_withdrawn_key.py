"""An open stream continues, and shows new commits, after the issuer has withdrawn the key that its token was signed with.

New requests with that token are refused. A stream asks again with every frame, but only whether the token's time is over
(`recheck` of external callers), so it lives until then. Guarantee: "What was proven by an external issuer's key ends with that key."
The same holds for the server's own keys when they are voided.

Run from the project's root: .venv/bin/python tests/findings/s6_stream_outlives_a_withdrawn_key.py  (exits 1 while the defect is there, 0 when it is closed.)
"""

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

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


keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("old", "new")}
published = ["old"]


class Issuer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        told = [
            {**json.loads(ECAlgorithm.to_jwk(keys[name].public_key())), "kid": name, "use": "sig", "alg": "ES256"}
            for name in published
        ]
        body = json.dumps({"keys": told}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def token(key):
    claims = {"iss": at, "aud": "headwater", "sub": "alice", "exp": int(time.time()) + 3600, "groups": ["readers"]}
    return {"authorization": "Bearer " + jwt.encode(claims, keys[key], algorithm="ES256", headers={"kid": key})}


web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
threading.Thread(target=web.serve_forever, daemon=True).start()
at = f"http://127.0.0.1:{web.server_port}"
with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    file.write(f'[[issuers]]\nissuer = "{at}"\njwks_url = "{at}"\naudience = "headwater"\nalgorithms = ["ES256"]\n')
    file.write('realm = "default"\nroles_claim = "groups"\n[issuers.roles]\nreaders = "readers"\n')
    file.flush()
    with Lake(oidc_config=file.name) as lake:
        lake.manage("POST", "/principal-roles", {"name": "readers"})
        lake.manage("PUT", "/principal-roles/readers/grants/catalog.read")
        alice, heard = token("old"), []

        def listen():
            query = {"pointer": "cat/1/heads/main", "after": "latest", "heartbeat": "1"}
            with httpx.Client(base_url=lake.url, timeout=None) as client:
                with client.stream("GET", "/feed/v1/default/stream", params=query, headers=alice) as stream:
                    heard.extend([stream.status_code])
                    for line in stream.iter_lines():
                        heard.append(line)

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        time.sleep(3)
        print("the stream is open:", heard[:1])
        published[:] = ["new"]
        for _ in range(20):  # a token of a key that is not known makes the server fetch the keys again, after 10 s
            time.sleep(2)
            lake.manage("GET", "/catalogs", who=token("new"))
            refused = lake.manage("GET", "/catalogs", who=alice).status_code
            if refused == 401:
                break
        print("a new request with the old key's token:", refused)
        time.sleep(3)
        put = {"op": "put", "key": ["written-after-the-withdrawal"], "type": "NAMESPACE", "content": {}}
        body = {"catalog": "lake", "operations": [put]}
        lake.http.post("/feed/v1/default/commit", headers=lake.root, json=body).raise_for_status()
        time.sleep(3)
        saw = any("written-after-the-withdrawal" in str(line) for line in heard)
        print("the stream is open:", listening.is_alive(), "and has seen the commit:", saw)
end(["a stream shows commits to a token whose key the issuer has withdrawn"] if saw and refused == 401 else [])
