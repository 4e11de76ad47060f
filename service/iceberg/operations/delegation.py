"""Gives a client access to the files of one table on S3: credentials, or signatures of single requests.

⚠ Every place is checked again: metadata that came through another API may name any location.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from urllib.parse import quote

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.gate.request import LEVELS
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import LakeBranch
from headwater.service.iceberg.operations.table_locations import places_of
from headwater.service.storage.remote_signing import Act, SignRequest, signed, target_of
from headwater.service.storage.s3_identity import S3Identity
from headwater.service.storage.storage_options import StorageOptions
from headwater.service.storage.vended_credentials import Allowed, CredentialVendor

VENDED, SIGNING = "vended-credentials", "remote-signing"


class Delegated(msgspec.Struct, frozen=True):
    """What an answer with a table holds beside the table."""

    config: dict[str, str] = {}
    credentials: Sequence[dict[str, object]] = ()


class Delegation:
    """Of one worker. Thread-safe. Its methods may wait for STS and for the store."""

    def __init__(self, storage: StorageOptions) -> None:
        self._storage = storage

    def offers(self, branch: LakeBranch, wanted: str) -> str | None:
        """Which of the ways that a client names in X-Iceberg-Access-Delegation it gets."""
        if not branch.metadata.warehouse.is_s3:
            return None
        ways = [way.strip() for way in wanted.split(",")]
        if VENDED in ways and self._storage.delegation.role:
            return VENDED
        return SIGNING if SIGNING in ways and self._storage.delegation.signs else None

    def give(self, branch: LakeBranch, key: KeyPath, table: Plain, prefix: str, way: str | None, *, writes: bool) -> Delegated:
        path = _path(prefix, key)
        if way == VENDED:
            return self._vend(self.places(branch, key, table), self._allowed(branch, writes), f"{path}/credentials")
        if way == SIGNING:
            config = {"s3.remote-signing-enabled": "true", "s3.signer": "S3V4RestSigner", "s3.signer.endpoint": f"{path}/sign"}
            return Delegated(config)
        return Delegated()

    def sign(self, branch: LakeBranch, key: KeyPath, table: Plain, request: SignRequest) -> dict[str, object]:
        """⚠ The right to write is checked before, by the method; see `needs_write`."""
        target = target_of(request, self._identity.endpoint)
        target.check_within(self.places(branch, key, table))
        if target.act is Act.DELETE and branch.engine_gc_refused:
            raise InvalidInput(
                "engines delete no files of this catalog.",
                field="method",
                remedy="Leave it to the server.",
            )
        return {"uri": request.uri, "headers": signed(request, self._identity)}

    def places(self, branch: LakeBranch, key: KeyPath, table: Plain) -> list[str]:
        found = list(dict.fromkeys(places_of(table["location"], table.get("properties") or {})))
        for place in found:
            branch.metadata.warehouse.check(place)
        branch.check_places(branch.state().at, {key: found})
        return found

    def _allowed(self, branch: LakeBranch, writes: bool) -> Allowed:
        return Allowed(writes, writes and not branch.engine_gc_refused)

    def _vend(self, places: list[str], allowed: Allowed, path: str) -> Delegated:
        config = self._vendor.credentials(places, allowed).config | {"client.refresh-credentials-endpoint": path}
        return Delegated(config, [{"prefix": f"{place.rstrip('/')}/", "config": config} for place in places])

    @cached_property
    def _identity(self) -> S3Identity:
        return S3Identity(self._storage.server)

    @cached_property
    def _vendor(self) -> CredentialVendor:
        return CredentialVendor(self._identity, self._storage.delegation)


def needs_write(request: SignRequest) -> bool:
    return request.method not in ("GET", "HEAD")


def _path(prefix: str, key: KeyPath) -> str:
    """Relative to the catalog's address, as clients want it."""
    namespace = quote(LEVELS.join(key[:-1]), safe="")
    return f"v1/{quote(prefix, safe='@:')}/namespaces/{namespace}/tables/{quote(key[-1], safe='')}"
