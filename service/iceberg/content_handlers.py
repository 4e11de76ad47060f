"""Handlers of tables and views."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headwater.producer.commits.owned_paths import require_unowned
from headwater.producer.content.snapshots import ContentEntry
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, Unsupported
from headwater.service.http.responses import JSON, NO_STORE, Response, json_response
from headwater.service.iceberg import table_access
from headwater.service.iceberg.call import IcebergCall, Identifier, key_of
from headwater.service.iceberg.metadata.table_requests import AssertCreate, read_requirements
from headwater.service.iceberg.operations import table_commits, tables, views
from headwater.service.iceberg.operations.delegation import SIGNING, VENDED, Delegated, needs_write
from headwater.service.iceberg.operations.lake_branch import TABLE, VIEW, LakeBranch, as_table, as_view
from headwater.service.iceberg.operations.metadata_files import MetadataFile, MetadataView, require_type
from headwater.service.iceberg.operations.namespaces import list_names
from headwater.service.iceberg.operations.tables import TableCreation
from headwater.service.iceberg.operations.views import ViewCreation
from headwater.service.iceberg.plain_handlers import NO_CONTENT, identifiers
from headwater.service.storage.remote_signing import SignRequest

_encode = msgspec.json.Encoder().encode


class Registration(msgspec.Struct, frozen=True, rename="kebab"):
    name: str
    metadata_location: str
    overwrite: bool = False


class Renaming(msgspec.Struct, frozen=True):
    source: Identifier
    destination: Identifier


class TableCommit(msgspec.Struct, frozen=True):
    """CommitTableRequest; its parts are read one by one, and appear in events as they were sent."""

    updates: list[msgspec.Raw]
    requirements: list[msgspec.Raw] = []
    identifier: Identifier | None = None

    @property
    def creates(self) -> bool:
        return any(isinstance(one, AssertCreate) for one in read_requirements(self.requirements))


class ViewCommit(msgspec.Struct, frozen=True):
    """CommitViewRequest."""

    updates: list[dict[str, Any]]
    requirements: list[dict[str, Any]] = []


class MetricsReport(msgspec.Struct, frozen=True):
    """Any JSON object: reports are accepted, and not kept."""


class Transaction(msgspec.Struct, frozen=True, rename="kebab"):
    table_changes: list[TableCommit]


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def list_tables(call: IcebergCall) -> Response:
    return identifiers(list_names(call.branch, call.namespace, TABLE, *call.page()))


def create_table(call: IcebergCall) -> Response:
    body = call.read(TableCreation)
    key = key_of(call.namespace, body.name)
    table_access.require_enforced_if_asked(call, key)
    if body.stage_create:
        require_unowned(call.branch.kernel, call.branch.catalog.id, key)
        # ⚠ Without `gc.enabled`: the client sends this back when it commits, and it would be stored.
        staged = tables.stage_table(call.branch, key, body)
        table = msgspec.json.decode(staged)
        return _loaded(
            call.branch,
            staged,
            None,
            table_access.client_config_now(call, key, table),
            table_access.delegated(call, key, table),
        )
    return _with_etag(call, key, tables.create_table(call.branch, call.author, key, body))


def register_table(call: IcebergCall) -> Response:
    body = call.read(Registration)
    key = key_of(call.namespace, body.name)
    table_access.require_enforced_if_asked(call, key)
    return _with_etag(call, key, tables.register_table(call.branch, call.author, key, body.metadata_location, body.overwrite))


async def load_table(call: IcebergCall) -> Response:
    """On the event loop, from memory, if the file is known; the branch is always asked."""
    snapshots = call.text("snapshots") or "all"
    if snapshots not in ("all", "refs"):
        raise InvalidInput(f"{snapshots[:40]!r} is neither all nor refs.", field="snapshots")
    location = as_table(call.table, await _standing_at(call, call.table)).value["metadata_location"]
    branch = await call.branch_on_loop()
    file = require_type(await _file(branch, call.table, location), is_view=False)
    view = MetadataView(snapshots == "refs", branch.engine_gc_refused)
    etag = file.etag_of(view)
    if call.delegation is not None:  # ⚠ never a 304: the client needs the credentials
        delegated = await asyncio.to_thread(table_access.delegated, call, call.table, file.table)
        whole = await asyncio.to_thread(file.view_json, view)
        return _loaded(branch, whole, file.location, call.lakes.storage.clients, delegated, (b"etag", etag.encode()))
    if etag in [one.strip().removeprefix("W/") for one in call.header(b"if-none-match").split(",")]:
        return Response(304, [(b"etag", etag.encode()), NO_STORE], b"")
    json = file.known_view(view)
    json = json if json is not None else await asyncio.to_thread(file.view_json, view)
    config = await table_access.client_config(call, call.table, file.table)
    return _loaded(branch, json, file.location, config, Delegated(), (b"etag", etag.encode()))


async def table_exists(call: IcebergCall) -> Response:
    as_table(call.table, await _standing_at(call, call.table))
    return NO_CONTENT


async def update_table(call: IcebergCall) -> Response:
    """Writers of one table wait in line on the event loop, where waiting costs no thread."""
    body, key = call.read(TableCommit), call.table
    branch, caller = await call.branch_on_loop(), call.author

    def update() -> Response:
        change = table_commits.table_change(branch, key, body.requirements, body.updates)
        file, view = table_commits.update_table(branch, caller, change), MetadataView(gc_refused=branch.engine_gc_refused)
        etag = (b"etag", file.etag_of(view).encode())
        body_json = b'{"metadata-location":%b,"metadata":%b}' % (_encode(file.location), file.view_json(view))
        return Response(200, [JSON, NO_STORE, etag], body_json)

    async with call.lakes.turns.of((branch, key), call.connection):
        return await asyncio.to_thread(update)


def drop_table(call: IcebergCall) -> Response:
    tables.drop_table(call.branch, call.author, call.table, purge=call.flag("purgeRequested"))
    return NO_CONTENT


def unregister_table(call: IcebergCall) -> Response:
    location = tables.drop_table(call.branch, call.author, call.table)
    file = call.branch.metadata.load(location or "")
    return Response(200, [JSON, NO_STORE], b'{"metadata-location":%b,"metadata":%b}' % (_encode(file.location), file.json))


def rename_table(call: IcebergCall) -> Response:
    body = call.read(Renaming)
    tables.rename_table(call.branch, call.author, body.source.key, body.destination.key)
    return NO_CONTENT


def commit_transaction(call: IcebergCall) -> Response:
    changes = []
    for change in call.read(Transaction).table_changes:
        if change.identifier is None:
            raise InvalidInput("A table change says no table.", field="identifier")
        changes.append(table_commits.table_change(call.branch, change.identifier.key, change.requirements, change.updates))
    table_commits.update_tables(call.branch, call.author, changes)
    return NO_CONTENT


def load_credentials(call: IcebergCall) -> Response:
    """Credentials of the table if the server makes some, else those that the operator lets clients have."""
    file = tables.load_table(call.branch, call.table)
    if call.lakes.delegation.offers(call.branch, VENDED):
        return json_response({"storage-credentials": table_access.delegated(call, call.table, file.table, VENDED).credentials})
    table_access.require_enforced(call, call.table, file.table)
    config = call.lakes.storage.clients if call.lakes.storage.secrets_told else {}
    root = call.branch.files_at(call.table, file.location).warehouse.root
    credentials = [{"prefix": root, "config": config}] if config else []
    return json_response({"storage-credentials": credentials})


def sign(call: IcebergCall) -> Response:
    request = call.read(SignRequest)
    if not call.lakes.delegation.offers(call.branch, SIGNING):
        raise Unsupported(
            "requests are not signed here.",
            field="uri",
            remedy="Ask for storage_remote_signing, on S3.",
        )
    writes = needs_write(request)
    if writes:
        require_unowned(call.branch.kernel, call.branch.catalog.id, call.table)
    wanted = table_access.files_of(call, call.table, tables.load_table(call.branch, call.table).table, writes=writes)
    return json_response(call.lakes.delegation.sign(wanted, request))


def report_metrics(call: IcebergCall) -> Response:
    """Accepted, and not kept."""
    tables.table_exists(call.branch, call.table)
    return NO_CONTENT


# ── views ───────────────────────────────────────────────────────────────────────────────────────────────────


def list_views(call: IcebergCall) -> Response:
    return identifiers(list_names(call.branch, call.namespace, VIEW, *call.page()))


def create_view(call: IcebergCall) -> Response:
    body = call.read(ViewCreation)
    file = views.create_view(call.branch, call.author, key_of(call.namespace, body.name), body)
    return _loaded_view(call, call.branch, file)


def register_view(call: IcebergCall) -> Response:
    body = call.read(Registration)
    key = key_of(call.namespace, body.name)
    file = views.register_view(call.branch, call.author, key, body.metadata_location)
    return _loaded_view(call, call.branch, file)


async def load_view(call: IcebergCall) -> Response:
    location = as_view(call.view, await _standing_at(call, call.view)).value["metadata_location"]
    branch = await call.branch_on_loop()
    file = require_type(await _file(branch, call.view, location), is_view=True)
    return _loaded_view(call, branch, file)


async def view_exists(call: IcebergCall) -> Response:
    as_view(call.view, await _standing_at(call, call.view))
    return NO_CONTENT


def replace_view(call: IcebergCall) -> Response:
    body = call.read(ViewCommit)
    file = views.replace_view(call.branch, call.author, call.view, body.requirements, body.updates)
    return _loaded_view(call, call.branch, file)


def drop_view(call: IcebergCall) -> Response:
    views.drop_view(call.branch, call.author, call.view)
    return NO_CONTENT


def rename_view(call: IcebergCall) -> Response:
    body = call.read(Renaming)
    views.rename_view(call.branch, call.author, body.source.key, body.destination.key)
    return NO_CONTENT


# ── reading on the event loop ───────────────────────────────────────────────────────────────────────────────


async def _standing_at(call: IcebergCall, key: KeyPath) -> ContentEntry | None:
    return await call.lakes.reads.get(await call.branch_on_loop(), key)


async def _file(branch: LakeBranch, key: KeyPath, location: str) -> MetadataFile:
    kept = branch.metadata.kept_and_there(location)
    return kept if kept is not None else await asyncio.to_thread(branch.load_metadata_if_there, key, location)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def _with_etag(call: IcebergCall, key: KeyPath, file: MetadataFile) -> Response:
    view, delegated = MetadataView(gc_refused=call.branch.engine_gc_refused), table_access.delegated(call, key, file.table)
    config, etag = table_access.client_config_now(call, key, file.table), (b"etag", file.etag_of(view).encode())
    return _loaded(call.branch, file.view_json(view), file.location, config, delegated, etag)


def _loaded_view(call: IcebergCall, branch: LakeBranch, file: MetadataFile) -> Response:
    """⚠ Without the keys that the operator lets readers of tables know: a view has no files that need them."""
    config = _encode({**call.lakes.storage.told_to_all, **branch.table_config})
    body = b'{"metadata-location":%b,"metadata":%b,"config":%b}' % (_encode(file.location), file.json, config)
    return Response(200, [JSON, NO_STORE], body)


def _loaded(
    branch: LakeBranch,
    metadata: bytes,
    location: str | None,
    config: dict[str, str],
    delegated: Delegated,
    *headers: tuple[bytes, bytes],
) -> Response:
    """The metadata as it stands in its file: it was read before, and is not read again."""
    where = b"" if location is None else b'"metadata-location":%b,' % _encode(location)
    encoded_config = _encode({**config, **branch.table_config, **delegated.config})
    given = b',"storage-credentials":%b' % _encode(delegated.credentials) if delegated.credentials else b""
    return Response(
        200, [JSON, NO_STORE, *headers], b'{%b"metadata":%b,"config":%b%b}' % (where, metadata, encoded_config, given)
    )
