"""TableStatisticsService, on the operations of `…/snapshots/{snapshot}/statistics` of the management API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from google.protobuf.message import Message

from headwater.producer.statistics.statistics_sets import StatisticsPage
from headwater.producer.statistics.statistics_write import StatisticsWrite
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.manage_json import Gone
from headwater.schemas.http.statistics_json import StatisticsBody, StatisticsInfo, StatisticsWritten
from headwater.schemas.rpc import statistics_pb2
from headwater.service.gate.route import Route
from headwater.service.grpc.contents.references import named
from headwater.service.grpc.gathering import each_part, new_digest
from headwater.service.grpc.messages.message_fields import TABLE, decoded, set_meta, version_of
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.messages.statistics_messages import (
    MODES,
    column_message,
    column_of,
    file_message,
    file_of,
    summary_message,
    table_of,
)
from headwater.service.grpc.rpc import Bound, Gathered, Rpc, RpcCall, joined, sibling
from headwater.service.http.responses import Response
from headwater.service.manage.call import ManageCall, meta_of
from headwater.service.manage.tables.statistics import STATISTICS as ONE
from headwater.service.manage.tables.statistics import operations_of, ref_of
from headwater.service.statistics.snapshot_lookup import CURRENT
from headwater.service.statistics.statistics_operations import statistics_info

SERVICE = "io.headwater.statistics.v1.TableStatisticsService"
PAGE_BYTES = 2 * 1024 * 1024
_GET, _PUT, _DELETE = sibling("GET", ONE), sibling("PUT", ONE), sibling("DELETE", ONE)
_COLUMNS, _FILES = sibling("GET", f"{ONE}/columns"), sibling("GET", f"{ONE}/files")
_OF_STREAM = ("snapshot", "mode")


async def _bound(call: RpcCall, route: Route, **parts: Any) -> Bound:
    ref = call.message.snapshot
    found = await named(call, ref.table, ref.reference, TABLE, "snapshot.table")
    if len(found.key) < 2:
        raise InvalidInput("a table has a namespace.", field="snapshot.table", remedy="Name the namespace too.")
    names = {
        "catalog": found.catalog,
        "namespace": joined(found.key[:-1], "snapshot.table"),
        "table": found.key[-1],
        "snapshot": str(ref.snapshot_id) if ref.HasField("snapshot_id") else CURRENT,
    }
    query = {"branch": ref.reference} if ref.reference else {}
    return Bound(route=route, names=names, query=query, **parts)


def _binding(route: Route) -> Callable[[RpcCall], Any]:
    return lambda call: _bound(call, route)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def _got(call: RpcCall, request: Any, response: Response) -> statistics_pb2.GetTableStatsResponse:
    return statistics_pb2.GetTableStatsResponse(stats=summary_message(decoded(response, StatisticsInfo)))


async def _column_page(call: RpcCall, request: ManageCall) -> Any:
    read = operations_of(request).columns

    def shown(page: StatisticsPage[Any]) -> Any:
        return statistics_pb2.ListColumnStatsResponse(columns=[column_message(one) for one in page.rows])

    return await _page(call, lambda token, limit: read(ref_of(request), token=token, limit=limit), shown)


async def _file_page(call: RpcCall, request: ManageCall) -> Any:
    read = operations_of(request).files

    def shown(page: StatisticsPage[Any]) -> Any:
        return statistics_pb2.ListFileColumnStatsResponse(files=[file_message(one) for one in page.rows])

    return await _page(call, lambda token, limit: read(ref_of(request), token=token, limit=limit), shown)


async def _page(
    call: RpcCall, read: Callable[[str | None, int], StatisticsPage[Any]], shown: Callable[[StatisticsPage[Any]], Any]
) -> Any:
    """⚠ A page is shorter than asked for where its rows would be too large for a message."""
    token, limit = page_token(call), page_size(call.message)

    def fitting(limit: int) -> Any:
        page = read(token, limit)
        message = shown(page)
        if message.ByteSize() > PAGE_BYTES and limit > 1:
            return fitting(max(1, limit * PAGE_BYTES // (2 * message.ByteSize())))
        message.page.next_token = next_token(call, page.next_token)
        return message

    return await asyncio.to_thread(fitting, limit)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────


def _mode(message: Any) -> Any:
    if message.mode not in MODES:
        raise InvalidInput(f"{message.mode} is no mode.", field="mode", remedy="Use one of PutMode.")
    return MODES[message.mode]


async def _put_table(call: RpcCall) -> Bound:
    message = call.message
    if not message.HasField("table"):
        raise InvalidInput("there is nothing to publish.", field="table", remedy="Send totals.")
    return await _bound(call, _PUT, body=StatisticsBody(mode=_mode(message), table=table_of(message.table)))


def _table_put(call: RpcCall, request: Any, response: Response) -> statistics_pb2.PutTableStatsResponse:
    written = decoded(response, StatisticsWritten)
    shown = statistics_pb2.PutTableStatsResponse(stats=summary_message(written.statistics))
    set_meta(shown.meta, written.meta)
    return shown


def _deleted(call: RpcCall, request: Any, response: Response) -> statistics_pb2.DeleteStatsResponse:
    shown = statistics_pb2.DeleteStatsResponse()
    set_meta(shown.meta, decoded(response, Gone).meta)
    return shown


async def _gather_columns(call: RpcCall, request: ManageCall, key: str | None, later: AsyncIterator[Message]) -> Gathered:
    def add(write: StatisticsWrite, part: Any) -> None:
        for column in part.columns:
            write.add_column(column_of(column))

    return await _gathered(call, request, key, later, add, statistics_pb2.PutColumnStatsResponse)


async def _gather_files(call: RpcCall, request: ManageCall, key: str | None, later: AsyncIterator[Message]) -> Gathered:
    def add(write: StatisticsWrite, part: Any) -> None:
        for file in part.files:
            write.add_file(file_of(file))

    return await _gathered(call, request, key, later, add, statistics_pb2.PutFileColumnStatsResponse)


async def _gathered(
    call: RpcCall,
    request: ManageCall,
    key: str | None,
    later: AsyncIterator[Message],
    add: Callable[[StatisticsWrite, Any], None],
    response: type[Any],
) -> Gathered:
    """Chunks are written as rows arrive, under ids that nobody reads before the end."""
    mode = _mode(call.message)
    write = await asyncio.to_thread(lambda: operations_of(request).write(ref_of(request), mode))
    digest = new_digest(call.message, _OF_STREAM)
    async for part in each_part(call, key, later, _OF_STREAM, digest):
        await asyncio.to_thread(add, write, part)

    def publish(run: ManageCall) -> Message:
        summary = write.publish(run.meta)
        rows = summary.columns_sent + summary.files_sent
        shown = response(stats=summary_message(statistics_info(summary.set)), rows=rows)
        set_meta(shown.meta, meta_of(summary.outcome, summary.set.version))
        made: Message = shown
        return made

    return Gathered(digest.digest(), publish)


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/GetTableStats", routes=(_GET,), bind=_binding(_GET), reply=_got)
    yield Rpc(method=f"{SERVICE}/ListColumnStats", routes=(_COLUMNS,), bind=_binding(_COLUMNS), answer=_column_page)
    yield Rpc(method=f"{SERVICE}/ListFileColumnStats", routes=(_FILES,), bind=_binding(_FILES), answer=_file_page)
    yield Rpc(method=f"{SERVICE}/PutTableStats", routes=(_PUT,), bind=_put_table, reply=_table_put, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/PutColumnStats", routes=(_PUT,), bind=_binding(_PUT), gather=_gather_columns, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/PutFileColumnStats", routes=(_PUT,), bind=_binding(_PUT), gather=_gather_files, is_keyed=True)
    yield Rpc(
        method=f"{SERVICE}/DeleteStats",
        routes=(_DELETE,),
        bind=lambda call: _bound(call, _DELETE, version=version_of(call.message)),
        reply=_deleted,
        is_keyed=True,
    )


ROWS = tuple(_rows())
