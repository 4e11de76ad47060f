"""Tells clients how to reach a table's files: credentials, signatures, keys. ⚠ Of masked tables to enforcers alone."""

from __future__ import annotations

import asyncio

import msgspec

from headwater.producer.commits.owned_paths import owner_of
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import NotPermitted
from headwater.service.auth.rights.rights import Right
from headwater.service.http.responses import Response
from headwater.service.iceberg.call import IcebergCall
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.delegation import Delegated, TableFiles
from headwater.service.iceberg.plans.plan_obligations import require_enforced_at
from headwater.service.storage.vended_credentials import CREDENTIAL_NAMES

_encode = msgspec.json.Encoder().encode


def delegated(call: IcebergCall, key: KeyPath, table: Plain, way: str | None = None) -> Delegated:
    """⚠ Who may create a table but not write it gets credentials to read: they outlive the request that creates it. So does
    everybody for a connector's table, whose files are its source's."""
    way = way or call.delegation
    if way is None:
        return Delegated()
    is_owned = owner_of(call.branch.kernel, call.branch.catalog.id, key) is not None
    wanted = files_of(call, key, table, writes=not is_owned and call.may(Right.TABLE_WRITE, key))
    return call.lakes.delegation.give(wanted, call.names["prefix"], way)


def files_of(call: IcebergCall, key: KeyPath, table: Plain, *, writes: bool) -> TableFiles:
    """`NotPermitted` for a table with obligations, if the caller does not enforce them."""
    require_enforced(call, key, table)
    default = call.lakes.branch_of(call.branch.kernel, call.branch.catalog, "")
    return TableFiles(call.branch, default, key, table, writes, call.may)


def require_enforced(call: IcebergCall, key: KeyPath, table: Plain | None = None) -> None:
    """`NotPermitted` if the caller does not enforce its obligations. Without a table, of what is to be created there."""
    require_enforced_at(call.guard, call.guard.now(), call.branch, call.lakes, key, table)


def require_enforced_if_asked(call: IcebergCall, key: KeyPath) -> None:
    """⚠ Before a table is created: a refusal of its credentials would come too late."""
    if call.delegation is not None:
        require_enforced(call, key)


async def client_config(call: IcebergCall, key: KeyPath, table: Plain) -> dict[str, str]:
    """What the operator lets clients know of the storage, without secrets where the table has obligations."""
    storage = call.lakes.storage
    if not storage.secrets_told:
        return storage.clients
    return await asyncio.to_thread(client_config_now, call, key, table)


def client_config_now(call: IcebergCall, key: KeyPath, table: Plain) -> dict[str, str]:
    """The same for a thread that may wait for the store."""
    storage = call.lakes.storage
    if not storage.secrets_told:
        return storage.clients
    try:
        require_enforced(call, key, table)
    except NotPermitted:
        return storage.told_to_all
    return storage.clients


def without_credentials(response: Response) -> Response:
    """⚠ What is kept under an Idempotency-Key: no credentials at rest. A repeated request gets them from `…/credentials`."""
    if b'"storage-credentials"' not in response.body:
        return response
    parts = msgspec.json.decode(response.body, type=dict[str, msgspec.Raw])
    del parts["storage-credentials"]
    config = msgspec.json.decode(parts["config"], type=dict[str, str])
    parts["config"] = msgspec.Raw(_encode({name: value for name, value in config.items() if name not in CREDENTIAL_NAMES}))
    return Response(response.status, response.headers, _encode(parts))
