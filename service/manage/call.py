"""One management request enters, its caller known; its parts leave: names, parameters, body, who writes and under which key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from headwater.persistence.reading.request_lookup import find_request
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.access.writing import Mutation, WriteMeta
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import InvalidInput, NotFound
from headwater.schemas.http.manage_json import MutationMeta
from headwater.service.auth.access import Access
from headwater.service.auth.caller import Caller
from headwater.service.http.bodies import decode_body
from headwater.service.http.correlation import correlation_headers
from headwater.service.http.preconditions import expected_version
from headwater.service.http.responses import Response, Scope, json_response
from headwater.service.idempotency.keyed_requests import idempotent_run
from headwater.service.idempotency.run_once import IdempotentRun
from headwater.service.storage.storage_roots import StorageRoots

LEVELS = "\x1f"
T = TypeVar("T", bound=msgspec.Struct)

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class ManageCall:
    def __init__(
        self,
        kernel: RealmKernel,
        access: Access,
        caller: Caller,
        scope: Scope,
        names: Mapping[str, str],
        query: Mapping[str, Any],
        body: bytes,
        storage_roots: StorageRoots,
    ) -> None:
        self.kernel = kernel
        self.access = access
        self.caller = caller
        self.scope = scope
        self.names = names
        self.query = query
        self.body = body
        self.storage_roots = storage_roots

    @property
    def store(self) -> Store:
        return self.kernel.store

    def read(self, type: type[T]) -> T:
        if type not in _decoders:
            _decoders[type] = msgspec.json.Decoder(type)
        found: T = decode_body(self.body, _decoders[type])
        return found

    @cached_property
    def catalog(self) -> Catalog:
        return Catalogs(self.kernel).get(self.names["catalog"])

    def path(self, name: str = "path") -> KeyPath:
        """Levels of a key, from the query or the path."""
        text = self.names[name] if name in self.names else self.query.get(name)
        if not text:
            return ()
        levels = tuple(str(text).split(LEVELS))
        if not all(levels):
            raise InvalidInput("a level is empty.", field=name, remedy="Part levels by %1F, and leave none empty.")
        return levels

    # ── who writes, and what they have read ─────────────────────────────────────────────────────────────────

    @property
    def under(self) -> IdempotentRun | None:
        return idempotent_run(self.scope)

    @property
    def meta(self) -> WriteMeta:
        run = self.under
        return WriteMeta(
            self.caller.name, headers=correlation_headers(self.scope), request_id=None if run is None else run.request
        )

    @property
    def version(self) -> str | None:
        return expected_version(self.scope)

    def gone(self, pointer: str, act: Callable[[], Mutation]) -> Mutation:
        """⚠ What an earlier run of this request has deleted is not there any more: then the log says that it was this one."""
        try:
            return act()
        except NotFound:
            run = self.under
            logged = find_request(self.kernel, pointer, run.request) if run is not None and run.again else None
            if logged is None:
                raise
            return Mutation(
                pointer=pointer,
                seq=logged.entry.seq,
                entry_id=logged.entry_id.hex(),
                time=logged.entry.time,
                changed=True,
                replayed=True,
            )


def meta_of(mutation: Mutation, version: str | None = None) -> MutationMeta:
    return MutationMeta(
        pointer=mutation.pointer,
        seq=mutation.seq,
        entry_id=mutation.entry_id,
        version=version,
        etag=None if version is None else f'"{version}"',
        time=time_text(mutation.time) if mutation.time else None,
        changed=mutation.changed,
        replayed=mutation.replayed,
    )


def versioned(value: object, version: str, status: int = 200) -> Response:
    """With the version as ETag, for If-Match."""
    return json_response(value, status, (b"etag", f'"{version}"'.encode()))
