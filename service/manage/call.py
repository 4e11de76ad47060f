"""A management request: names, parameters, body, who writes and under which key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.reading.request_lookup import find_request
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import Store
from headwater.producer.access.writing import WriteMeta, outcome_of
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import NotFound, RouteNotFound
from headwater.schemas.http.manage_json import Gone, MutationMeta
from headwater.service.gate.request import Request
from headwater.service.http.correlation import correlation_headers
from headwater.service.http.responses import Response, json_response
from headwater.service.storage.storage_roots import StorageRoots

IN_SYSTEM = (
    "/manage/v1/realms",
    "/manage/v1/{realm}/principals",
    "/manage/v1/{realm}/principal-roles",
    "/manage/v1/{realm}/denials",
    "/manage/v1/{realm}/usage",
    "/manage/v1/{realm}/oauth",
)
"""What the system realm has; it has neither catalogs nor policies."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


class ManageCall(Request):
    serves_system = True

    @property
    def store(self) -> Store:
        return self.kernel.store

    @property
    def storage_roots(self) -> StorageRoots:
        return self.service.config.storage_roots

    @cached_property
    def catalog(self) -> Catalog:
        return Catalogs(self.kernel).get(self.names["catalog"])

    def path(self, name: str = "path") -> KeyPath:
        """Levels of a key, from the query or the path."""
        return self.levels(name)

    async def handle(self) -> Response | None:
        if self.names.get("realm") == SYSTEM_REALM and not self.route_path.startswith(IN_SYSTEM):
            raise RouteNotFound("the system realm has principals, roles and denials alone.", remedy="Name another realm.")
        return await super().handle()

    # ── who writes, and what they have read ─────────────────────────────────────────────────────────────────

    @property
    def meta(self) -> WriteMeta:
        request_id = None if self.run is None else self.run.request
        return WriteMeta(self.caller.name, headers=correlation_headers(self.scope), request_id=request_id)

    def gone(self, pointer: str, act: Callable[[], CommitOutcome]) -> Response:
        """⚠ What an earlier run of this request has deleted is not there any more: then the log says that it was this one."""
        try:
            outcome = act()
        except NotFound:
            run = self.run
            logged = find_request(self.kernel, pointer, run.request) if run is not None and run.again else None
            if logged is None:
                raise
            outcome = outcome_of(pointer, logged, replayed=True)
        return json_response(Gone(meta=meta_of(outcome)))

    def page(self, list: Callable[..., Sequence[N]]) -> tuple[Sequence[N], str | None]:
        """What follows the token in order of name, and the token of what follows that."""
        limit: int = self.query["limit"]
        found = list(after=self.query["token"] or "", limit=limit)
        return found, found[-1].name if len(found) == limit else None


def meta_of(outcome: CommitOutcome, version: str | None = None) -> MutationMeta:
    logged = outcome.logged
    return MutationMeta(
        pointer=outcome.pointer,
        seq=outcome.seq,
        entry_id="" if logged is None else logged.entry_id.hex(),
        version=version,
        etag=None if version is None else f'"{version}"',
        time=None if logged is None or not logged.entry.time else time_text(logged.entry.time),
        changed=outcome.changed,
        replayed=outcome.replayed,
    )


def without_secret(answer: Response) -> Response:
    """What is kept of an answer under its key."""
    fields = msgspec.json.decode(answer.body)
    if isinstance(fields, dict) and isinstance(fields.get("credentials"), dict):
        fields["credentials"]["client_secret"] = None
    return answer._replace(body=msgspec.json.encode(fields))


def versioned(value: object, version: str, status: int = 200) -> Response:
    """With the version as ETag, for If-Match."""
    return json_response(value, status, (b"etag", f'"{version}"'.encode()))
