"""Roles of a realm or of a catalog, their members and their grants."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.persistence.records.principal_records import GRANTS_POINTER, ROLES_POINTER
from headwater.producer.access.grants import Grants, catalog_grants, realm_grants
from headwater.producer.access.role_removal import forget_grants
from headwater.producer.access.roles import Assignment, Roles, catalog_roles, principal_roles
from headwater.producer.pointer_names import catalog_grants_pointer, catalog_roles_pointer
from headwater.producer.record_views import grant_info, role_info
from headwater.schemas.http.manage_json import (
    AssignmentInfo,
    AssignmentsPage,
    AssignmentWritten,
    Gone,
    GrantsPage,
    GrantWritten,
    PropertiesBody,
    RoleBody,
    RoleInfo,
    RolesPage,
    RoleWritten,
)
from headwater.service.auth.rights.rights import Right, right_of
from headwater.service.gate.route import BODY, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned
from headwater.service.manage.route import IN_CATALOG, IN_REALM, Over


def list_roles(call: ManageCall) -> Response:
    found, next_token = call.page(_roles(call).list)
    return json_response(RolesPage(roles=[role_info(one) for one in found], next_token=next_token))


def get_role(call: ManageCall) -> Response:
    found = _roles(call).get(call.names["role"])
    return versioned(role_info(found), found.version)


def create_role(call: ManageCall) -> Response:
    body = call.read(RoleBody)
    written = _roles(call).create(body.name, properties=body.properties, meta=call.meta)
    role = written.value
    return versioned(RoleWritten(role=role_info(role), meta=meta_of(written.outcome, role.version)), role.version, 201)


def update_role(call: ManageCall) -> Response:
    body = call.read(PropertiesBody)
    written = _roles(call).update(call.names["role"], properties=body.properties, version=call.version, meta=call.meta)
    role = written.value
    return versioned(RoleWritten(role=role_info(role), meta=meta_of(written.outcome, role.version)), role.version)


def delete_role(call: ManageCall) -> Response:
    """⚠ First the role, which ends all that was granted to it; the grants themselves are removed after."""
    name = call.names["role"]
    gone = call.gone(_roles_pointer(call), lambda: _roles(call).delete(name, version=call.version, meta=call.meta))
    forget_grants(_grants(call), name, call.meta)
    return gone


# ── members ─────────────────────────────────────────────────────────────────────────────────────────────────


def list_members(call: ManageCall) -> Response:
    return _assignments(_roles(call).members(call.names["role"]))


def roles_of_principal(call: ManageCall) -> Response:
    return _assignments(principal_roles(call.kernel).of_member(call.names["principal"]))


def assign(call: ManageCall) -> Response:
    written = _roles(call).assign(call.names["member"], call.names["role"], meta=call.meta)
    return json_response(AssignmentWritten(assignment=_assignment(written.value), meta=meta_of(written.outcome)))


def revoke_member(call: ManageCall) -> Response:
    member, role = call.names["member"], call.names["role"]
    return call.gone(_roles_pointer(call), lambda: _roles(call).revoke(member, role, meta=call.meta))


# ── grants ──────────────────────────────────────────────────────────────────────────────────────────────────


def list_grants(call: ManageCall) -> Response:
    _roles(call).get(call.names["role"])
    return json_response(GrantsPage(grants=[grant_info(one) for one in _grants(call).of_role(call.names["role"])]))


def grant(call: ManageCall) -> Response:
    right = right_of(call.names["right"])
    written = _grants(call).grant(call.names["role"], right, call.path(), meta=call.meta)
    return json_response(GrantWritten(grant=grant_info(written.value), meta=meta_of(written.outcome)))


def revoke_grant(call: ManageCall) -> Response:
    role, right, path = call.names["role"], right_of(call.names["right"]), call.path()
    return call.gone(_grants_pointer(call), lambda: _grants(call).revoke(role, right, path, meta=call.meta))


# ── of a realm, or of the catalog that the path names ───────────────────────────────────────────────────────


def _roles(call: ManageCall) -> Roles:
    return catalog_roles(call.kernel, call.catalog.id) if "catalog" in call.names else principal_roles(call.kernel)


def _grants(call: ManageCall) -> Grants:
    return catalog_grants(call.kernel, call.catalog.id) if "catalog" in call.names else realm_grants(call.kernel)


def _roles_pointer(call: ManageCall) -> str:
    return catalog_roles_pointer(call.catalog.id) if "catalog" in call.names else ROLES_POINTER


def _grants_pointer(call: ManageCall) -> str:
    return catalog_grants_pointer(call.catalog.id) if "catalog" in call.names else GRANTS_POINTER


def _assignments(found: Sequence[Assignment]) -> Response:
    return json_response(AssignmentsPage(assignments=[_assignment(one) for one in found]))


def _assignment(one: Assignment) -> AssignmentInfo:
    return AssignmentInfo(member=one.member, role=one.role)


def _routes_of(base: str, what: str, right: Right, over: Over, member: str) -> tuple[Route, ...]:
    """Roles of a realm and of a catalog are managed alike."""
    one = f"{base}/{{role}}"
    paths = parameters.GRANT_PATH if over is Over.CATALOG else ()
    return (
        Route(
            "GET",
            base,
            f"The {what}s, in order of name.",
            list_roles,
            over.needs(right),
            parameters=parameters.PAGE,
            answer=RolesPage,
        ),
        Route(
            "POST",
            base,
            f"Create a {what}.",
            create_role,
            over.needs(right),
            BODY,
            body=RoleBody,
            answer=RoleWritten,
            status=201,
        ),
        Route("GET", one, f"One {what}.", get_role, over.needs(right), answer=RoleInfo),
        Route(
            "PUT",
            one,
            f"Set the properties of a {what}.",
            update_role,
            over.needs(right),
            BODY,
            body=PropertiesBody,
            answer=RoleWritten,
        ),
        Route("DELETE", one, f"Delete a {what}, with its members and grants.", delete_role, over.needs(right), answer=Gone),
        Route("GET", f"{one}/members", f"The members of a {what}.", list_members, over.needs(right), answer=AssignmentsPage),
        Route(
            "PUT",
            f"{one}/members/{{member}}",
            f"Give a {what} to a {member}.",
            assign,
            over.needs(right),
            answer=AssignmentWritten,
        ),
        Route(
            "DELETE",
            f"{one}/members/{{member}}",
            f"Revoke a {what} from a {member}.",
            revoke_member,
            over.needs(right),
            answer=Gone,
        ),
        Route("GET", f"{one}/grants", f"What is granted to a {what}.", list_grants, over.needs(right), answer=GrantsPage),
        Route(
            "PUT",
            f"{one}/grants/{{right}}",
            f"Grant a right to a {what}.",
            grant,
            over.needs(right),
            parameters=paths,
            answer=GrantWritten,
        ),
        Route(
            "DELETE",
            f"{one}/grants/{{right}}",
            f"Revoke a right from a {what}.",
            revoke_grant,
            over.needs(right),
            parameters=paths,
            answer=Gone,
        ),
    )


ROUTES = (
    Route(
        "GET",
        f"{IN_REALM}/principals/{{principal}}/roles",
        "The principal roles of a principal.",
        roles_of_principal,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        answer=AssignmentsPage,
    ),
    *_routes_of(f"{IN_REALM}/principal-roles", "principal role", Right.ACCESS_MANAGE, Over.REALM, "principal"),
    *_routes_of(f"{IN_CATALOG}/roles", "catalog role", Right.CATALOG_MANAGE, Over.CATALOG, "principal role"),
)
