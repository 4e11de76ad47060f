"""Management calls to a server: realms, catalogs and references; each change is applied once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import quote

import msgspec

from headwater.client.server_calls import ServerCalls
from headwater.consumers.clients.feed_http import Query
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.http.manage_json import (
    CatalogBody,
    CatalogWritten,
    Gone,
    RealmBody,
    RealmInfo,
    RealmMade,
    RealmsPage,
    ReferenceBody,
    ReferenceTarget,
    ReferenceWritten,
)

T = TypeVar("T")


class RemoteManage:
    def __init__(self, calls: ServerCalls) -> None:
        self._calls = calls
        self._base = f"{calls.target.server.rstrip('/')}/manage/v1"

    # ── realms, with a token of the system ──────────────────────────────────────────────────────────────────

    def realms(self) -> Iterator[RealmInfo]:
        token = ""
        while True:
            page = self._calls.get(f"{self._base}/realms", [("token", token)] if token else [], RealmsPage)
            yield from page.realms
            if page.next_token is None:
                return
            token = page.next_token

    def create_realm(self, name: str) -> RealmMade:
        return self._change("POST", "realms", RealmMade, RealmBody(name=name))

    # ── catalogs and references of the realm ────────────────────────────────────────────────────────────────

    def create_catalog(self, name: str, storage_root: str) -> CatalogWritten:
        return self._change("POST", self._path("catalogs"), CatalogWritten, CatalogBody(name=name, storage_root=storage_root))

    def drop_catalog(self, name: str) -> Gone:
        return self._change("DELETE", self._path("catalogs", name), Gone, query=[("require_empty", "false")])

    def create_reference(self, catalog: str, name: str, type: ReferenceType, source: str | None) -> ReferenceWritten:
        body = ReferenceBody(name=name, type=type.lower(), source=source)
        return self._change("POST", self._path("catalogs", catalog, "references"), ReferenceWritten, body)

    def assign(self, catalog: str, name: str, type: ReferenceType, target: str, expected_head: str | None) -> ReferenceWritten:
        path = self._path("catalogs", catalog, "references", type.lower(), name)
        return self._change("PUT", path, ReferenceWritten, ReferenceTarget(target=target, expected_head=expected_head))

    def delete(self, catalog: str, name: str, type: ReferenceType, expected_head: str | None) -> Gone:
        path = self._path("catalogs", catalog, "references", type.lower(), name)
        headers = {} if expected_head is None else {"if-match": f'"{expected_head}"'}
        return self._change("DELETE", path, Gone, headers=headers)

    def _path(self, *parts: str) -> str:
        return "/".join(quote(part, safe="") for part in (self._calls.target.realm, *parts))

    def _change(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: msgspec.Struct | None = None,
        headers: dict[str, str] | None = None,
        query: Query | None = None,
    ) -> T:
        """⚠ Under one key, however often it is sent."""
        sent = {"idempotency-key": uuid.uuid4().hex, "content-type": "application/json", **(headers or {})}
        content = None if body is None else msgspec.json.encode(body)
        return self._calls.call(method, f"{self._base}/{path}", kind, query=query, headers=sent, content=content)
