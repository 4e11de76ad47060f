"""Gives a client access to the files of one table on S3: credentials, or signatures of single requests.

⚠ Every place is checked again: metadata that came through another API may name any location.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from urllib.parse import quote

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, LocationForbidden
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.request import LEVELS
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import LakeBranch
from headwater.service.storage.locations import places_of
from headwater.service.storage.remote_signing import Act, SignRequest, signed, target_of
from headwater.service.storage.s3_identity import S3Identity
from headwater.service.storage.storage_options import StorageOptions
from headwater.service.storage.vended_credentials import Allowed, CredentialVendor

VENDED, SIGNING = "vended-credentials", "remote-signing"


class Delegated(msgspec.Struct, frozen=True):
    """What an answer with a table holds beside the table."""

    config: dict[str, str] = {}
    credentials: Sequence[dict[str, object]] = ()


class TableFiles(msgspec.Struct, frozen=True):
    """The files of a table that somebody wants to reach."""

    branch: LakeBranch
    default: LakeBranch
    """The default branch of the catalog."""
    key: KeyPath
    table: Plain
    writes: bool
    may: Callable[[Right, KeyPath], bool]
    """What the caller may do with a table of the catalog."""


class Delegation:
    """One per worker. Thread-safe. Its methods may wait for STS and for the store."""

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

    def give(self, wanted: TableFiles, prefix: str, way: str | None) -> Delegated:
        path = _path(prefix, wanted.key)
        if way == VENDED:
            return self._vend(self.places(wanted), self._allowed(wanted), f"{path}/credentials")
        if way == SIGNING:
            config = {"s3.remote-signing-enabled": "true", "s3.signer": "S3V4RestSigner", "s3.signer.endpoint": f"{path}/sign"}
            return Delegated(config)
        return Delegated()

    def sign(self, wanted: TableFiles, request: SignRequest) -> dict[str, object]:
        """⚠ The right to write is checked before, by the method; see `needs_write`."""
        target = target_of(request, self._identity)
        target.check_within(self.places(wanted))
        if target.act is Act.DELETE and wanted.branch.engine_gc_refused:
            raise InvalidInput(
                "engines delete no files of this catalog.",
                field="method",
                remedy="Leave it to the server.",
            )
        return {"uri": request.uri, "headers": signed(request, self._identity)}

    def places(self, wanted: TableFiles) -> list[str]:
        """⚠ No other table of the state has files there. One of the default branch may, as after a rename on this branch, if
        the caller has the same rights to it: else whoever chooses a location on a branch without that table could read it."""
        branch, table = wanted.branch, wanted.table
        found = list(dict.fromkeys(places_of(table["location"], table.get("properties") or {})))
        for place in found:
            branch.files_at(wanted.key, place).warehouse.check(place)
        branch.check_places(branch.state().at, {wanted.key: found})
        if wanted.default.reference != branch.reference:
            needed = (Right.TABLE_READ, Right.TABLE_WRITE) if wanted.writes else (Right.TABLE_READ,)
            for other in wanted.default.tables_at(found) - {wanted.key}:
                if not all(wanted.may(right, other) for right in needed):
                    raise LocationForbidden(
                        "the table is at the location of another one on the default branch.",
                        field="location",
                        remedy="Use the default branch, or ask for the rights to the other table.",
                    )
        return found

    def _allowed(self, wanted: TableFiles) -> Allowed:
        return Allowed(wanted.writes, wanted.writes and not wanted.branch.engine_gc_refused)

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
