"""Realms with principals of all kinds enter; the whole service that guards them leaves, to be asked within this process."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from starlette.routing import Router

from headwater.persistence.principals import ROOT_PRINCIPAL
from headwater.persistence.realms import Realms
from headwater.persistence.secret_hashes import ScryptCost
from headwater.persistence.store import RealmKernel, StoreOptions, open_store
from headwater.producer.access.grants import catalog_grants, realm_grants
from headwater.producer.access.principals import Credentials, Principals
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs import Catalogs
from headwater.producer.commit_meta import CommitMeta
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import RecordExists
from headwater.service.app import close_service, open_service
from headwater.service.config import ServeConfig
from headwater.service.http.door import Door
from headwater.service.http.plain_routes import plain_routes
from headwater.service.iceberg.door import iceberg_routes
from headwater.service.manage.door import manage_routes
from headwater.service.nessie.door import nessie_routes

CHEAP = ScryptCost(n=2, r=1, p=1)
META = WriteMeta("test")
REALM_NAMES = ("alpha", "beta")
CATALOG = "lake"
PEER = ("127.0.0.1", 40_000)


class Rig:
    """Two realms with a catalog each. Principals are made as they are needed; `root` may do everything in its realm."""

    def __init__(self, folder: Path, **config: Any) -> None:
        url = f"memory://access-{uuid.uuid4().hex}"
        self.roots: dict[str, Credentials] = {}
        with open_store(url, create=True) as store:
            realms = Realms(store, secret_cost=CHEAP)
            for name in REALM_NAMES:
                realms.create(name)
                made = realms.init(name)
                self.roots[name] = Credentials(client_id=made.client_id, client_secret=made.client_secret)
                warehouse = folder / f"{name}-warehouse"
                warehouse.mkdir()
                Catalogs(realms.require_active(name)).create(CATALOG, storage_root=warehouse.as_uri(), meta=CommitMeta("test"))
        chosen: dict[str, Any] = {
            "store": url,
            "store_options": StoreOptions(),
            "default_realm": "alpha",
            "secret_cost": CHEAP,
            **config,
        }
        self.config = ServeConfig(**chosen)
        self.service, self.store = open_service(self.config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        routes = [
            *plain_routes(self.service),
            *iceberg_routes(self.service),
            *nessie_routes(self.service),
            *manage_routes(self.service),
        ]
        self.door = Door(self.service, Router(routes))
        self._tokens: dict[tuple[str, str], str] = {}
        self._credentials: dict[tuple[str, str], Credentials] = {}

    # ── asking ──────────────────────────────────────────────────────────────────────────────────────────────

    def ask(
        self, method: str, path: str, *, token: str | None = None, peer: tuple[str, int] = PEER, **options: Any
    ) -> httpx.Response:
        headers = dict(options.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {token}"

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.door, client=peer, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://headwater.test", timeout=30) as client:
                return await client.request(method, path, headers=headers, **options)

        return self.run(send())

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def get(self, path: str, token: str | None = None, **options: Any) -> httpx.Response:
        return self.ask("GET", path, token=token, **options)

    def token_answer(self, realm: str, credentials: Credentials, **options: Any) -> httpx.Response:
        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
            "scope": "catalog",
        }
        return self.ask("POST", f"/manage/v1/{realm}/oauth/tokens", data=form, **options)

    def token(self, realm: str, principal: str = ROOT_PRINCIPAL) -> str:
        """A token of a principal that was made here; the same one while it lasts."""
        known = self._tokens.get((realm, principal))
        if known is None:
            credentials = self.roots[realm] if principal == ROOT_PRINCIPAL else self._credentials[realm, principal]
            answer = self.token_answer(realm, credentials)
            assert answer.status_code == 200, answer.text
            known = self._tokens[realm, principal] = answer.json()["access_token"]
        return known

    # ── making ──────────────────────────────────────────────────────────────────────────────────────────────

    def kernel(self, realm: str) -> RealmKernel:
        return Realms(self.store).require_active(realm)

    def principal(
        self,
        realm: str,
        name: str,
        *rights: Right,
        over_realm: tuple[Right, ...] = (),
        path: KeyPath = (),
    ) -> str:
        """A principal with a role of its own; its token."""
        kernel = self.kernel(realm)
        made = Principals(kernel, cost=CHEAP).create(name, meta=META)
        assert made.credentials is not None
        self._credentials[realm, name] = made.credentials
        role = f"{name}-role"
        principal_roles(kernel).create(role, meta=META)
        principal_roles(kernel).assign(name, role, meta=META)
        for right in over_realm:
            realm_grants(kernel).grant(role, right, meta=META)
        for right in rights:
            self.grant(realm, name, right, path)
        return self.token(realm, name)

    def grant(self, realm: str, name: str, right: Right, path: KeyPath = ()) -> None:
        kernel, role = self.kernel(realm), f"{name}-role"
        catalog = Catalogs(kernel).get(CATALOG)
        with suppress(RecordExists):
            catalog_roles(kernel, catalog.id).create(role, meta=META)
        catalog_roles(kernel, catalog.id).assign(role, role, meta=META)
        catalog_grants(kernel, catalog.id).grant(role, right, path, meta=META)

    def revoke(self, realm: str, name: str, right: Right, path: KeyPath = ()) -> None:
        kernel = self.kernel(realm)
        catalog_grants(kernel, Catalogs(kernel).get(CATALOG).id).revoke(f"{name}-role", right, path, meta=META)

    def commit(self, realm: str, *keys: KeyPath, token: str | None = None, **options: Any) -> httpx.Response:
        """Namespaces at these keys, as one commit."""
        operations = [
            {"op": "put", "key": list(key), "type": "NAMESPACE", "content": {"properties": {"made-by": "test"}}} for key in keys
        ]
        body = {"catalog": CATALOG, "operations": operations, "message": "make namespaces", **options}
        return self.ask("POST", f"/feed/v1/{realm}/commit", token=token or self.token(realm), json=body)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        close_service(self.service, self.store)


@contextmanager
def access_rig(folder: Path, **config: Any) -> Iterator[Rig]:
    rig = Rig(folder, **config)
    try:
        yield rig
    finally:
        rig.close()
