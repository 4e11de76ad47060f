"""The setting `audit_log` knows every service, and refuses what is none."""

from __future__ import annotations

import logging

import pytest

from headwater.schemas.errors import InvalidInput
from headwater.schemas.rpc.services import SERVICES
from headwater.service.observability.audit import (
    AUDIT,
    GRPC_SERVICES,
    HTTP_APIS,
    NAME_CHARACTERS_MAX,
    AuditedCall,
    audited_services,
    write_audit,
)
from headwater.service.routes import route_table


def test_every_api_and_every_grpc_service_can_be_named() -> None:
    assert sorted(HTTP_APIS) == sorted(api.name for api in route_table().apis)
    assert sorted(GRPC_SERVICES) == sorted(service.name for service in SERVICES)


def test_services_are_named_one_by_one_or_in_groups() -> None:
    assert audited_services("") == frozenset()
    assert audited_services(" manage  TableService ") == {"manage", "TableService"}
    assert audited_services("http FeedService") == {*HTTP_APIS, "FeedService"}
    assert audited_services("all") == {*HTTP_APIS, *GRPC_SERVICES}


@pytest.mark.parametrize("text", ["manage,iceberg", "tableservice", "feed nothing"])
def test_what_is_no_service_is_refused_with_the_field(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        audited_services(text)
    assert refused.value.field == "audit_log"


def test_names_are_shown_by_level_and_not_beyond_their_limit(caplog: pytest.LogCaptureFixture) -> None:
    call = AuditedCall(
        service="TableService",
        method="GetTable",
        route="TableService/GetTable",
        names={"path": "db\x1ft", "name": "x" * 1_000_000},
        status="OK",
        seconds=0.1,
        request_id="r",
        correlation_id="c",
        peer="127.0.0.1",
        principal=None,
        realm=None,
    )
    with caplog.at_level(logging.INFO, logger=AUDIT.name):
        write_audit(call)
    [record] = caplog.records
    shown = record.__dict__["names"]
    assert shown["path"] == ["db", "t"] and len(shown["name"]) == NAME_CHARACTERS_MAX + 1
