"""A real server that asks for tokens: over TLS, over streams, with PyIceberg, through a kill -9, and what its log says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, OAuthError, UnauthorizedError

from headwater.persistence.realms.realms import InitializedRealm, Realms
from headwater.persistence.store import Store, open_store
from headwater.producer.access.grants import catalog_grants
from headwater.producer.access.principals import Credentials, Principals
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from tests.support.servers.feed_server import FeedServer, events, feed_server
from tests.support.servers.self_signed import self_signed

META = WriteMeta("test")
MAIN = "cat/1/heads/main"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[Store, InitializedRealm]]:
    """A store with realm `default` and catalog `lake`, open beside the server like another process has it."""
    with open_store(f"sqlite:///{tmp_path}/lake.db", create=True) as store:
        realms = Realms(store)
        realms.create("default")
        made = realms.init("default")
        warehouse = tmp_path / "warehouse"
        warehouse.mkdir()
        Catalogs(realms.require_active("default")).create("lake", storage_root=warehouse.as_uri(), meta=CommitMeta("test"))
        yield store, made


def _token(server: FeedServer, credentials: InitializedRealm | Credentials) -> str:
    form = {"grant_type": "client_credentials", "client_id": credentials.client_id, "client_secret": credentials.client_secret}
    answer = httpx.post(f"{server.url}/manage/v1/default/oauth/tokens", data=form, verify=server.verify, timeout=30)
    assert answer.status_code == 200, answer.text
    token: str = answer.json()["access_token"]
    return token


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _reader(store: Store, right: Right, *path: str) -> Credentials:
    kernel = Realms(store).require_active("default")
    made = Principals(kernel).create("reader", meta=META).credentials
    assert made is not None
    principal_roles(kernel).create("readers", meta=META)
    principal_roles(kernel).assign("reader", "readers", meta=META)
    catalog_roles(kernel, 1).create("readers", meta=META)
    catalog_roles(kernel, 1).assign("readers", "readers", meta=META)
    catalog_grants(kernel, 1).grant("readers", right, path, meta=META)
    return made


def _commit(server: FeedServer, token: str, *key: str) -> None:
    body = {"catalog": "lake", "operations": [{"op": "put", "key": list(key), "type": "NAMESPACE", "content": {}}]}
    answer = httpx.post(f"{server.feed}/commit", json=body, headers=_bearer(token), verify=server.verify, timeout=30)
    assert answer.status_code == 200, answer.text


def _ends(server: FeedServer, reader: str, end: Callable[[], object]) -> dict[str, Any]:
    """The last event of a stream that was open and heard of nothing wrong when `end` was called."""
    url = f"{server.feed}/stream?pointer={MAIN}&heartbeat=0.2"
    with httpx.stream("GET", url, headers=_bearer(reader), timeout=30) as answer:
        assert answer.status_code == 200
        told = events(answer.iter_lines())
        assert next(told).event in ("changes", "bookmark")
        end()
        last = [event for event in told if event.event != "bookmark"][-1]
    assert last.event == "end"
    found: dict[str, Any] = last.data["problem"]
    return found


def test_a_stream_ends_when_another_process_revokes_its_right_or_voids_its_token(
    lake: tuple[Store, InitializedRealm], tmp_path: Path
) -> None:
    store, root = lake
    credentials = _reader(store, Right.FEED_READ)
    kernel = Realms(store).require_active("default")
    with feed_server(f"sqlite:///{tmp_path}/lake.db", dev=False) as server:
        token, reader = _token(server, root), _token(server, credentials)
        _commit(server, token, "seen")
        page = httpx.get(f"{server.feed}/changes?pointer={MAIN}", headers=_bearer(reader), timeout=30).json()
        assert page["changes"][-1]["operations"][0]["key"] == ["seen"]
        problem = _ends(server, reader, lambda: catalog_grants(kernel, 1).revoke("readers", Right.FEED_READ, meta=META))
        assert problem["code"] == "POINTER_NOT_FOUND"
        assert httpx.get(f"{server.feed}/changes?pointer={MAIN}", headers=_bearer(reader), timeout=30).status_code == 404
        catalog_grants(kernel, 1).grant("readers", Right.FEED_READ, meta=META)
        deadline = time.monotonic() + 10
        while httpx.get(f"{server.feed}/changes?pointer={MAIN}", headers=_bearer(reader), timeout=30).status_code != 200:
            assert time.monotonic() < deadline, "what was granted again is not served"
            time.sleep(0.05)
        problem = _ends(server, reader, lambda: Principals(kernel).rotate_secret("reader", meta=META))
        assert problem["code"] == "NOT_AUTHENTICATED"
        assert httpx.get(f"{server.feed}/pointers", headers=_bearer(reader), timeout=30).status_code == 401


def test_pyiceberg_signs_in_with_id_and_secret_and_uses_its_rights(
    lake: tuple[Store, InitializedRealm], tmp_path: Path
) -> None:
    store, root = lake
    credentials = _reader(store, Right.CATALOG_WRITE, "db")
    with feed_server(f"sqlite:///{tmp_path}/lake.db", dev=False) as server:

        def catalog(credential: str) -> RestCatalog:
            return RestCatalog(
                "lake",
                uri=f"{server.url}/iceberg",
                warehouse="lake",
                credential=credential,
                **{"oauth2-server-uri": f"{server.url}/iceberg/v1/oauth/tokens"},
            )

        admin = catalog(f"{root.client_id}:{root.client_secret}")
        admin.create_namespace("db")
        admin.create_namespace("other")
        mine = catalog(f"{credentials.client_id}:{credentials.client_secret}")
        table = mine.create_table("db.t", schema=_schema())
        assert mine.load_table("db.t").metadata.table_uuid == table.metadata.table_uuid
        with pytest.raises(ForbiddenError):
            mine.create_table("other.t", schema=_schema())
        with pytest.raises(ForbiddenError):
            mine.load_namespace_properties("other")
        with pytest.raises((OAuthError, UnauthorizedError)):
            catalog(f"{credentials.client_id}:wrong")
        with pytest.raises(UnauthorizedError):
            RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")
        page = httpx.get(f"{server.feed}/changes?pointer={MAIN}", headers=_bearer(_token(server, root)), timeout=30).json()
        assert [change["author"] for change in page["changes"][-3:]] == ["root", "root", "reader"]
        assert _audited(server, _token(server, root)).returncode == 0
        partial = _audited(server, _token(server, credentials))
        assert partial.returncode == 2 and "withheld" in partial.stderr, "an audit of a part would find gaps that are none"
        assert _audited(server, "").returncode == 2
        for one in (admin, mine):
            one.close()
        log = server.log_text
    assert root.client_secret not in log and credentials.client_secret not in log and "eyJ" not in log
    denied = [line for line in server.log if line["message"] == "denied"]
    assert {line["principal"] for line in denied} == {"reader"} and all(line["right"] for line in denied)


def _audited(server: FeedServer, token: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", "audit", "verify", "--server", server.url, "--pointer", MAIN, "--json"]
    environ = {**os.environ, "HEADWATER_SERVER_TOKEN": token}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("a", pa.int64())])


def test_a_principal_created_in_a_process_killed_before_its_answer_exists_once_with_one_secret(tmp_path: Path) -> None:
    """kill -9 between the commit and the answer; the same request again shows a secret, and only that one counts."""
    url = f"sqlite:///{tmp_path}/lake.db"
    with open_store(url, create=True) as store:
        Realms(store).create("default")
        Realms(store).init("default")
    script = f"""
import os, signal
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import open_store
from headwater.producer.access.principals import Principals
from headwater.producer.access.writing import WriteMeta
store = open_store({url!r})
made = Principals(Realms(store).require_active("default")).create("alice", meta=WriteMeta("test", request_id="make-alice"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", script], env={**os.environ}, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, "the fault never fired"
    with open_store(url) as store:
        principals = Principals(Realms(store).require_active("default"))
        assert len(principals.get("alice").secrets) == 1, "the commit had landed"
        again = principals.create("alice", meta=WriteMeta("test", request_id="make-alice"))
        assert again.credentials is not None and again.outcome.replayed
        (only,) = principals.get("alice").secrets
        assert again.credentials.client_secret.startswith(f"{only.id}_")
    with feed_server(url, dev=False) as server:
        assert _token(server, again.credentials)


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_over_tls_tokens_are_issued_and_accepted_and_plain_text_is_not_served(
    lake: tuple[Store, InitializedRealm], tmp_path: Path
) -> None:
    _, root = lake
    certificate, key = self_signed(tmp_path)
    arguments = ("--tls-certificate", certificate, "--tls-key", key)
    with feed_server(f"sqlite:///{tmp_path}/lake.db", *arguments, dev=False, certificate=certificate) as server:
        token = _token(server, root)
        answer = httpx.get(f"{server.feed}/pointers", headers=_bearer(token), verify=server.verify, timeout=30)
        assert answer.status_code == 200 and answer.json()["pointers"]
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{server.port}/readyz", timeout=5)


def test_serve_refuses_to_listen_beyond_this_machine_without_tls(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headwater", "serve", "--store", f"sqlite:///{tmp_path}/x.db", "--host", "0.0.0.0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2 and "TLS" in refused.stderr and len(refused.stderr.strip().splitlines()) == 1
    assert "Traceback" not in refused.stderr and json.dumps(refused.stderr)
