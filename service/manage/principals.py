"""Creates, updates, rotates, resets and deletes principals of a realm. A secret is shown once."""

from __future__ import annotations

from headwater.persistence.records.principal_records import PRINCIPALS_POINTER
from headwater.producer.access.effective import effective_rights
from headwater.producer.access.principals import Principals, WithSecret
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.record_views import effective_info, principal_info, secret_shown
from headwater.schemas.http.manage_json import (
    EffectiveInfo,
    Gone,
    PrincipalBody,
    PrincipalInfo,
    PrincipalsPage,
    PrincipalWritten,
    PropertiesBody,
    RotationBody,
)
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned, without_secret
from headwater.service.manage.route import IN_REALM, Over


def list_principals(call: ManageCall) -> Response:
    found, next_token = call.page(Principals(call.kernel).list)
    return json_response(PrincipalsPage(principals=[principal_info(one) for one in found], next_token=next_token))


def get_principal(call: ManageCall) -> Response:
    found = Principals(call.kernel).get(call.names["principal"])
    return versioned(principal_info(found), found.version)


def create_principal(call: ManageCall) -> Response:
    body = call.read(PrincipalBody)
    made = Principals(call.kernel).create(body.name, properties=body.properties, with_secret=body.with_secret, meta=call.meta)
    return _with_secret(made, 201)


def update_principal(call: ManageCall) -> Response:
    body = call.read(PropertiesBody)
    written = Principals(call.kernel).update(
        call.names["principal"], properties=body.properties, version=call.version, meta=call.meta
    )
    found = written.value
    return versioned(
        PrincipalWritten(principal=principal_info(found), meta=meta_of(written.outcome, found.version)), found.version
    )


def delete_principal(call: ManageCall) -> Response:
    name = call.names["principal"]
    return call.gone(PRINCIPALS_POINTER, lambda: Principals(call.kernel).delete(name, version=call.version, meta=call.meta))


def rotate_secret(call: ManageCall) -> Response:
    return _rotate(call, call.read(RotationBody).overlap_seconds)


def reset_secret(call: ManageCall) -> Response:
    """All secrets before it end at once."""
    return _rotate(call, 0)


def effective(call: ManageCall) -> Response:
    name = call.names["principal"]
    Principals(call.kernel).get(name)
    catalogs = {one.id: one.name for one in Catalogs(call.kernel).list()}
    found = effective_rights(call.kernel, name, catalogs)
    return json_response(effective_info(name, found, catalogs))


def _rotate(call: ManageCall, overlap_seconds: int) -> Response:
    principals, name = Principals(call.kernel), call.names["principal"]
    return _with_secret(principals.rotate_secret(name, overlap_seconds=overlap_seconds, version=call.version, meta=call.meta))


def _with_secret(made: WithSecret, status: int = 200) -> Response:
    principal, meta = made.principal, meta_of(made.outcome, made.principal.version)
    written = PrincipalWritten(principal=principal_info(principal), credentials=secret_shown(made), meta=meta)
    return versioned(written, principal.version, status)


_PRINCIPAL = f"{IN_REALM}/principals/{{principal}}"
ROUTES = (
    Route(
        "GET",
        f"{IN_REALM}/principals",
        "The principals, in order of name.",
        list_principals,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        parameters=parameters.PAGE,
        answer=PrincipalsPage,
    ),
    Route(
        "POST",
        f"{IN_REALM}/principals",
        "Create a principal; its secret is shown once.",
        create_principal,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        BODY,
        body=PrincipalBody,
        answer=PrincipalWritten,
        status=201,
        kept=without_secret,
    ),
    Route("GET", _PRINCIPAL, "One principal.", get_principal, Over.REALM.needs(Right.ACCESS_MANAGE), answer=PrincipalInfo),
    Route(
        "PUT",
        _PRINCIPAL,
        "Set the properties of a principal.",
        update_principal,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        BODY,
        body=PropertiesBody,
        answer=PrincipalWritten,
    ),
    Route(
        "DELETE",
        _PRINCIPAL,
        "Delete a principal; its tokens end with it.",
        delete_principal,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        answer=Gone,
    ),
    Route(
        "POST",
        f"{_PRINCIPAL}/rotate",
        "Create a new secret, shown once; the previous one stays valid for an overlap.",
        rotate_secret,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        BODY,
        body=RotationBody,
        answer=PrincipalWritten,
        kept=without_secret,
    ),
    Route(
        "POST",
        f"{_PRINCIPAL}/reset",
        "Create a new secret, shown once; all earlier ones end now.",
        reset_secret,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        answer=PrincipalWritten,
        kept=without_secret,
    ),
    Route(
        "GET",
        f"{_PRINCIPAL}/rights",
        "What a principal may do now.",
        effective,
        Over.REALM.needs(Right.ACCESS_MANAGE),
        answer=EffectiveInfo,
    ),
)
