"""Writes one line for each call of the services that are audited: who called what, with which outcome.

⚠ A line has the names of the route, never a body, a query, a header or a path as it was sent: there may be secrets in them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from headwater.schemas.errors import InvalidInput

AUDIT = logging.getLogger("headwater.audit.calls")

HTTP_APIS = ("feed", "manage", "iceberg", "nessie", "root")
GRPC_SERVICES = (
    *("CatalogService", "ConnectorService", "DirectoryService", "FeedService", "NamespaceService", "PlanningService"),
    *("ReferenceService", "SnapshotService", "TableService", "TableStatisticsService", "TenantService", "TokenService"),
    "ViewService",
)
"""Named here, because what checks settings must not load gRPC."""
GROUPS = {"http": HTTP_APIS, "grpc": GRPC_SERVICES, "all": (*HTTP_APIS, *GRPC_SERVICES)}
NAME_CHARACTERS_MAX = 512
LEVELS = "\x1f"


class AuditedCall(msgspec.Struct, frozen=True, kw_only=True):
    service: str
    method: str
    """`GET`, or the method of a gRPC service."""
    route: str
    """The template of the path, or the full name of the gRPC method."""
    names: Mapping[str, str]
    """The route's parameters, as the call filled them in."""
    status: int | str
    seconds: float
    request_id: str
    correlation_id: str
    peer: str
    principal: str | None
    """None where nobody was proven to call."""
    realm: str | None


def audited_services(text: str) -> frozenset[str]:
    """From the setting: names of services and groups of them, blank between."""
    found: set[str] = set()
    for name in text.split():
        if name not in GROUPS and name not in GROUPS["all"]:
            raise InvalidInput(
                f"there is no service {name[:100]!r}.",
                field="audit_log",
                remedy=f"Name {', '.join([*GROUPS, *GROUPS['all']])}, or none.",
            )
        found.update(GROUPS.get(name, (name,)))
    return frozenset(found)


def write_audit(call: AuditedCall) -> None:
    fields = msgspec.structs.asdict(call) | {
        "seconds": round(call.seconds, 6),
        "names": {name: _shown(value) for name, value in call.names.items()} or None,
    }
    AUDIT.info("call", extra=fields)


def _shown(value: str) -> str | list[str]:
    """A path of several levels as a list; of a name that is too long its beginning."""
    kept = value if len(value) <= NAME_CHARACTERS_MAX else f"{value[:NAME_CHARACTERS_MAX]}…"
    return kept.split(LEVELS) if LEVELS in kept else kept
