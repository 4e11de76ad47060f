"""The one table of all gRPC methods, keyed by method; a method without a row stops the server."""

from __future__ import annotations

from headwater.service.grpc.rpc import Rpc
from headwater.service.grpc.services import (
    bundle_rpcs,
    catalog_rpcs,
    connector_rpcs,
    directory_rpcs,
    feed_rpcs,
    namespace_rpcs,
    planning_rpcs,
    reference_rpcs,
    snapshot_rpcs,
    statistics_rpcs,
    subscription_rpcs,
    table_rpcs,
    tenant_rpcs,
    token_rpcs,
    view_rpcs,
)

RPCS: dict[str, Rpc] = {
    row.method: row
    for rows in (
        feed_rpcs.ROWS,
        subscription_rpcs.ROWS,
        catalog_rpcs.ROWS,
        namespace_rpcs.ROWS,
        reference_rpcs.ROWS,
        table_rpcs.ROWS,
        view_rpcs.ROWS,
        snapshot_rpcs.ROWS,
        directory_rpcs.ROWS,
        tenant_rpcs.ROWS,
        connector_rpcs.ROWS,
        planning_rpcs.ROWS,
        statistics_rpcs.ROWS,
        token_rpcs.ROWS,
        bundle_rpcs.ROWS,
    )
    for row in rows
}
