"""UpdateTenant by its mask, beside PATCH over HTTP: equal tenants, log entries and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import error_details_pb2

import headwater
from headwater.persistence.realms.realm_records import REALMS_POINTER
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import principal_roles
from headwater.schemas.rpc import common_pb2, tenant_pb2
from tests.support.fixtures.access_rig import CHEAP, META
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, detail_of, grpc_rig

HTTP, GRPC = "by-http", "by-grpc"
CHANGES = (
    {"description": "Sales"},
    {"status": "INACTIVE"},
    {"description": "open again", "status": "ACTIVE"},
    {"description": ""},
)


class Tenants:
    """As a system administrator sees them, by either way."""

    def __init__(self, port: GrpcRig, token: str) -> None:
        self.port, self.token = port, token
        self.stub = port.stub("TenantService")
        self.metadata = [bearer(token)]

    def update(self, name: str, mask: list[str], **fields: Any) -> tenant_pb2.UpdateTenantResponse:
        tenant = {key: fields.pop(key) for key in ("description",) if key in fields}
        tenant |= {"status": fields.pop("wanted")} if "wanted" in fields else {}
        request = tenant_pb2.UpdateTenantRequest(
            name=name, tenant=tenant_pb2.Tenant(**tenant), update_mask=FieldMask(paths=mask), **fields
        )
        answer: tenant_pb2.UpdateTenantResponse = self.stub.UpdateTenant(request, metadata=self.metadata)
        return answer

    def get(self, name: str) -> tenant_pb2.Tenant:
        answer: tenant_pb2.GetTenantResponse = self.stub.GetTenant(
            tenant_pb2.GetTenantRequest(name=name), metadata=self.metadata
        )
        return answer.tenant

    def patch(self, name: str, body: dict[str, str]) -> Any:
        return self.port.rig.ask("PATCH", f"/manage/v1/realms/{name}", token=self.token, json=body)

    def newest_entry(self, name: str) -> tuple[Any, ...]:
        """Of the log of realms, with the name left out."""
        system = self.port.rig.store.system
        entry = system.walk.load(system.store.backend.read_pointer(system.realm, REALMS_POINTER).head).entry
        return entry.kind, entry.author, entry.message.replace(name, "…"), [(it.op, len(it.key)) for it in entry.operations]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-tenants")) as port:
        system = port.rig.store.system
        made = Principals(system, cost=CHEAP).create("operator", meta=META).credentials
        assert made is not None
        principal_roles(system).create("operators", meta=META)
        principal_roles(system).assign("operator", "operators", meta=META)
        realm_grants(system).grant("operators", Right.SYSTEM_MANAGE, meta=META)
        yield Tenants(port, port.rig.token_answer("::system::", made).json()["access_token"])


def test_a_change_by_either_way_leaves_equal_tenants_and_entries(tenants: Tenants) -> None:
    body = {"name": HTTP, "description": "first"}
    tenants.port.rig.ask("POST", "/manage/v1/realms", token=tenants.token, json=body).raise_for_status()
    made = tenants.stub.CreateTenant(tenant_pb2.CreateTenantRequest(name=GRPC, description="first"), metadata=tenants.metadata)
    assert made.tenant.description == "first" and made.credentials.client_secret
    for change in CHANGES:
        by_http = tenants.patch(HTTP, change).raise_for_status().json()["realm"]
        entry_by_http = tenants.newest_entry(HTTP)
        fields = {"wanted" if key == "status" else key: value for key, value in change.items()}
        done = tenants.update(GRPC, list(change), **fields)
        assert tenants.newest_entry(GRPC) == entry_by_http
        assert (done.tenant.description, done.tenant.status) == (by_http["description"], by_http["status"])
        assert change.items() <= {"description": done.tenant.description, "status": done.tenant.status}.items()
        assert done.tenant == tenants.get(GRPC) and done.meta.version == done.tenant.version
    listed = tenants.stub.ListTenants(tenant_pb2.ListTenantsRequest(), metadata=tenants.metadata)
    assert tenants.get(GRPC) in listed.tenants


def test_only_what_the_mask_names_is_changed(tenants: Tenants) -> None:
    tenants.update("beta", ["description"], description="kept", wanted="INACTIVE")
    assert (tenants.get("beta").description, tenants.get("beta").status) == ("kept", "ACTIVE")
    tenants.update("beta", ["status"], description="ignored", wanted="INACTIVE")
    assert (tenants.get("beta").description, tenants.get("beta").status) == ("kept", "INACTIVE")
    old_client = tenant_pb2.UpdateTenantRequest(name="beta", status="ACTIVE")
    assert tenants.stub.UpdateTenant(old_client, metadata=tenants.metadata).tenant.status == "ACTIVE"
    tenants.update("beta", ["description"])
    assert tenants.get("beta").description == ""


@pytest.mark.parametrize(
    ("mask", "fields", "code", "field"),
    [
        ([], {"description": "x"}, "INVALID_ARGUMENT", "update_mask"),
        (["colour"], {"description": "x"}, "INVALID_ARGUMENT", "update_mask"),
        (["description", "name"], {"description": "x"}, "INVALID_ARGUMENT", "update_mask"),
        (["description"], {"description": "x", "status": "INACTIVE"}, "INVALID_ARGUMENT", "status"),
        (["description", "status"], {"description": "x"}, "INVALID_ARGUMENT", "status"),
        (["description", "status"], {"description": "x", "wanted": "PURGED"}, "INVALID_ARGUMENT", "status"),
        (["description"], {"description": "é" * 2_049}, "INVALID_ARGUMENT", "description"),
        (["description", "status"], {"description": "é" * 2_049, "wanted": "INACTIVE"}, "INVALID_ARGUMENT", "description"),
        (["description", "status"], {"description": "x", "wanted": "ACTIVE"}, "FAILED_PRECONDITION", ""),
        (
            ["description"],
            {"description": "x", "precondition": common_pb2.Precondition(expected_version="0")},
            "FAILED_PRECONDITION",
            "",
        ),
    ],
)
def test_what_is_refused_changes_nothing(
    tenants: Tenants, mask: list[str], fields: dict[str, Any], code: str, field: str
) -> None:
    before = tenants.get("alpha")
    with pytest.raises(grpc.RpcError) as refused:
        tenants.update("alpha", mask, **fields)
    assert refused.value.code().name == code
    if field:
        [violation] = detail_of(refused.value, error_details_pb2.BadRequest).field_violations
        assert violation.field == field
    assert tenants.get("alpha") == before
    tenants.port.rig.commit("alpha", ("still-open",)).raise_for_status()


def test_our_own_client_describes_by_either_way(tenants: Tenants) -> None:
    with headwater.connect(tenants.port.url, token=tenants.token) as engine:
        realms = engine.manage_realms()
        assert realms.describe("alpha", "by a client").description == "by a client"
        assert realms.realm("alpha").description == "by a client"
        assert realms.create("made", initialize=True, description="new").realm.description == "new"
        assert realms.deactivate("made").description == "new"
