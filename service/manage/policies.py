"""Policies of a realm, and what they are mapped to: the realm, a catalog, or a path of it."""

from __future__ import annotations

from headwater.producer.access.policies import POLICIES_POINTER, Policies, Target
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.record_views import mapping_info, policy_info
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.manage_json import (
    ApplicablePolicies,
    ApplicablePolicy,
    Gone,
    MappingBody,
    MappingsPage,
    MappingWritten,
    PoliciesPage,
    PolicyBody,
    PolicyChange,
    PolicyInfo,
    PolicyWritten,
)
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned
from headwater.service.manage.route import IN_REALM, Over


def list_policies(call: ManageCall) -> Response:
    found, next_token = call.page(Policies(call.kernel).list)
    return json_response(PoliciesPage(policies=[policy_info(one) for one in found], next_token=next_token))


def get_policy(call: ManageCall) -> Response:
    found = Policies(call.kernel).get(call.names["policy"])
    return versioned(policy_info(found), found.version)


def create_policy(call: ManageCall) -> Response:
    body = call.read(PolicyBody)
    written = Policies(call.kernel).create(
        body.name, type=body.type, content=body.content, description=body.description, meta=call.meta
    )
    policy = written.value
    return versioned(
        PolicyWritten(policy=policy_info(policy), meta=meta_of(written.outcome, policy.version)), policy.version, 201
    )


def update_policy(call: ManageCall) -> Response:
    body = call.read(PolicyChange)
    written = Policies(call.kernel).update(
        call.names["policy"], content=body.content, description=body.description, version=call.version, meta=call.meta
    )
    policy = written.value
    return versioned(PolicyWritten(policy=policy_info(policy), meta=meta_of(written.outcome, policy.version)), policy.version)


def delete_policy(call: ManageCall) -> Response:
    name, detach_all = call.names["policy"], call.query["detach_all"] == "true"
    return call.gone(
        POLICIES_POINTER,
        lambda: Policies(call.kernel).delete(name, version=call.version, detach_all=detach_all, meta=call.meta),
    )


# ── mappings ────────────────────────────────────────────────────────────────────────────────────────────────


def list_mappings(call: ManageCall) -> Response:
    policies, names = Policies(call.kernel), _catalog_names(call)
    policies.get(call.names["policy"])
    return json_response(MappingsPage(mappings=[mapping_info(one, names) for one in policies.mappings(call.names["policy"])]))


def attach(call: ManageCall) -> Response:
    body = call.read(MappingBody)
    written = Policies(call.kernel).attach(call.names["policy"], _target(call), parameters=body.parameters, meta=call.meta)
    mapping = mapping_info(written.value, _catalog_names(call))
    return json_response(MappingWritten(mapping=mapping, meta=meta_of(written.outcome)))


def detach(call: ManageCall) -> Response:
    name, target = call.names["policy"], _target(call)
    return call.gone(POLICIES_POINTER, lambda: Policies(call.kernel).detach(name, target, meta=call.meta))


def applicable(call: ManageCall) -> Response:
    names = _catalog_names(call)
    found = Policies(call.kernel).applicable(_target(call))
    applicable = [
        ApplicablePolicy(policy=policy_info(policy), mapping=mapping_info(mapping, names)) for policy, mapping in found
    ]
    return json_response(ApplicablePolicies(policies=applicable))


def _target(call: ManageCall) -> Target:
    catalog, path = call.query["catalog"], call.path()
    if catalog is None:
        if path:
            raise InvalidInput("the realm has no paths.", field="path", remedy="Name a catalog.")
        return Target()
    return Target(Catalogs(call.kernel).get(catalog).id, path)


def _catalog_names(call: ManageCall) -> dict[int, str]:
    return {one.id: one.name for one in Catalogs(call.kernel).list()}


_POLICY = f"{IN_REALM}/policies/{{policy}}"
ROUTES = (
    Route(
        "GET",
        f"{IN_REALM}/policies",
        "The policies, in order of name.",
        list_policies,
        Over.REALM.needs(Right.POLICY_READ),
        parameters=parameters.PAGE,
        answer=PoliciesPage,
    ),
    Route(
        "POST",
        f"{IN_REALM}/policies",
        "Create a policy.",
        create_policy,
        Over.REALM.needs(Right.POLICY_MANAGE),
        BODY,
        body=PolicyBody,
        answer=PolicyWritten,
        status=201,
    ),
    Route("GET", _POLICY, "One policy.", get_policy, Over.REALM.needs(Right.POLICY_READ), answer=PolicyInfo),
    Route(
        "PUT",
        _POLICY,
        "Change what a policy says.",
        update_policy,
        Over.REALM.needs(Right.POLICY_MANAGE),
        BODY,
        body=PolicyChange,
        answer=PolicyWritten,
    ),
    Route(
        "DELETE",
        _POLICY,
        "Delete a policy.",
        delete_policy,
        Over.REALM.needs(Right.POLICY_MANAGE),
        parameters=parameters.DELETE_POLICY,
        answer=Gone,
    ),
    Route(
        "GET",
        f"{_POLICY}/mappings",
        "What a policy is mapped to.",
        list_mappings,
        Over.REALM.needs(Right.POLICY_READ),
        answer=MappingsPage,
    ),
    Route(
        "PUT",
        f"{_POLICY}/mappings",
        "Map a policy to the realm, a catalog, or a path of it.",
        attach,
        Over.REALM.needs(Right.POLICY_MANAGE),
        BODY,
        parameters=parameters.TARGET,
        body=MappingBody,
        answer=MappingWritten,
    ),
    Route(
        "DELETE",
        f"{_POLICY}/mappings",
        "Remove a mapping of a policy.",
        detach,
        Over.REALM.needs(Right.POLICY_MANAGE),
        parameters=parameters.TARGET,
        answer=Gone,
    ),
    Route(
        "GET",
        f"{IN_REALM}/applicable-policies",
        "The policies that apply: the nearest of each type.",
        applicable,
        Over.REALM.needs(Right.POLICY_READ),
        parameters=parameters.TARGET,
        answer=ApplicablePolicies,
    ),
)
