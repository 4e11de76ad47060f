"""The one table of all routes, and the gate that serves it. A new API is declared here."""

from __future__ import annotations

from functools import cache, partial

from headwater.service.feed.call import FeedCall
from headwater.service.feed.feed_routes import FEED_API
from headwater.service.feed.service import Service
from headwater.service.gate.gate import Gate
from headwater.service.gate.request import Request
from headwater.service.gate.route_table import RouteTable
from headwater.service.iceberg.call import IcebergCall
from headwater.service.iceberg.routes import ICEBERG
from headwater.service.manage.call import ManageCall
from headwater.service.manage.routes import MANAGE
from headwater.service.nessie.call import NessieCall
from headwater.service.nessie.routes import NESSIE
from headwater.service.root.docs_page import docs_page
from headwater.service.root.openapi import openapi_bytes
from headwater.service.root.root_routes import ROOT


@cache
def route_table() -> RouteTable:
    return RouteTable((FEED_API, MANAGE, ICEBERG, NESSIE, ROOT))


def build_gate(service: Service) -> Gate:
    table = route_table()
    service.openapi = partial(openapi_bytes, table)
    service.docs_page = partial(docs_page, table)
    requests: dict[str, type[Request]] = {
        FEED_API.name: FeedCall,
        MANAGE.name: ManageCall,
        ICEBERG.name: IcebergCall,
        NESSIE.name: NessieCall,
    }
    return Gate(service, table, requests)
