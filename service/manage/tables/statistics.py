"""Statistics of a table's snapshot: totals, columns, files."""

from __future__ import annotations

from headwater.schemas.http.manage_json import Gone
from headwater.schemas.http.statistics_json import (
    ColumnStatisticsPage,
    FileStatisticsPage,
    StatisticsBody,
    StatisticsInfo,
    StatisticsWritten,
)
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.route import BODY, Needs, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned
from headwater.service.manage.route import IN_CATALOG
from headwater.service.statistics.statistics_operations import SnapshotRef, StatisticsOperations, statistics_info


def get_statistics(call: ManageCall) -> Response:
    found = operations_of(call).get(ref_of(call))
    return json_response(found) if found.version is None else versioned(found, found.version)


def list_columns(call: ManageCall) -> Response:
    page = operations_of(call).columns(ref_of(call), token=call.query["token"], limit=call.query["limit"])
    return json_response(ColumnStatisticsPage(columns=page.rows, next_token=page.next_token))


def list_files(call: ManageCall) -> Response:
    page = operations_of(call).files(ref_of(call), token=call.query["token"], limit=call.query["limit"])
    return json_response(FileStatisticsPage(files=page.rows, next_token=page.next_token))


def put_statistics(call: ManageCall) -> Response:
    summary = operations_of(call).put(ref_of(call), call.read(StatisticsBody), call.meta)
    written = StatisticsWritten(
        statistics=statistics_info(summary.set),
        columns_sent=summary.columns_sent,
        files_sent=summary.files_sent,
        meta=meta_of(summary.outcome, summary.set.version),
    )
    return versioned(written, summary.set.version)


def delete_statistics(call: ManageCall) -> Response:
    operations = operations_of(call)
    return call.gone(operations.sets.pointer, lambda: operations.delete(ref_of(call), version=call.version, meta=call.meta))


def operations_of(call: ManageCall) -> StatisticsOperations:
    return StatisticsOperations(call.kernel, call.service.lakes, call.catalog, call.guard)


def ref_of(call: ManageCall) -> SnapshotRef:
    return SnapshotRef((*call.path("namespace"), call.names["table"]), call.names["snapshot"], call.query["branch"])


def _needs(right: Right) -> Needs:
    def over(call: ManageCall) -> list[tuple[Right, Securable]]:
        return [(right, Securable(call.names["catalog"], (*call.levels("namespace"), call.names["table"])))]

    return Needs(right=right, where="the table", path=over)


_READ, _WRITE = Right.STATISTICS_READ, Right.STATISTICS_WRITE
STATISTICS = f"{IN_CATALOG}/namespaces/{{namespace}}/tables/{{table}}/snapshots/{{snapshot}}/statistics"
ROUTES = (
    Route(
        "GET",
        STATISTICS,
        "Totals of a snapshot, an id or `current`, and what else is known of it.",
        get_statistics,
        _needs(_READ),
        parameters=parameters.ON_BRANCH,
        answer=StatisticsInfo,
    ),
    Route(
        "PUT",
        STATISTICS,
        "Publish statistics of a snapshot, all or none.",
        put_statistics,
        _needs(_WRITE),
        BODY,
        parameters=parameters.ON_BRANCH,
        body=StatisticsBody,
        answer=StatisticsWritten,
    ),
    Route(
        "DELETE",
        STATISTICS,
        "Delete the statistics of a snapshot.",
        delete_statistics,
        _needs(_WRITE),
        parameters=parameters.ON_BRANCH,
        answer=Gone,
    ),
    Route(
        "GET",
        f"{STATISTICS}/columns",
        "Statistics of columns, in order of field id.",
        list_columns,
        _needs(_READ),
        parameters=(*parameters.ON_BRANCH, *parameters.PAGE),
        answer=ColumnStatisticsPage,
    ),
    Route(
        "GET",
        f"{STATISTICS}/files",
        "Statistics of files, in order of path.",
        list_files,
        _needs(_READ),
        parameters=(*parameters.ON_BRANCH, *parameters.PAGE),
        answer=FileStatisticsPage,
    ),
)
