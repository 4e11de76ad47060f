"""Moves realms along their life cycle, for system administrators."""

from __future__ import annotations

from collections.abc import Callable

from headwater.persistence.realms.realm_records import REALMS_POINTER, Realm
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.principal_records import ROOT_PRINCIPAL
from headwater.producer.access.principals import Principals
from headwater.producer.access.writing import WriteMeta
from headwater.producer.record_views import realm_info
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import InvalidInput, RealmStateConflict, RecordChanged
from headwater.schemas.http.manage_json import (
    MutationMeta,
    RealmBody,
    RealmChange,
    RealmInfo,
    RealmMade,
    RealmMoved,
    RealmsPage,
    SecretShown,
)
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, Route
from headwater.service.http.responses import NO_STORE, Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, versioned, without_secret
from headwater.service.manage.route import REALMS, Over


def list_realms(call: ManageCall) -> Response:
    found, next_token = call.page(_realms(call).list)
    return json_response(RealmsPage(realms=[realm_info(one) for one in found], next_token=next_token))


def get_realm(call: ManageCall) -> Response:
    realm = _realms(call).get(call.names["realm"])
    return versioned(realm_info(realm), _version(realm))


def create_realm(call: ManageCall) -> Response:
    body = call.read(RealmBody)
    realms = _realms(call)
    realm = realms.create(body.name, description=body.description, request_id=call.meta.request_id)
    made = (
        _initialized(call, realms, realm) if body.initialize else RealmMade(realm=realm_info(realm), meta=_meta(realms, realm))
    )
    return versioned(made, made.realm.version, 201)


def init_realm(call: ManageCall) -> Response:
    realms = _realms(call)
    made = _initialized(call, realms, realms.get(call.names["realm"]))
    return versioned(made, made.realm.version)


def update_realm(call: ManageCall) -> Response:
    body = call.read(RealmChange)
    said = body.description
    match body.status:
        case "ACTIVE":
            return _moved(call, RealmStatus.ACTIVE, lambda realms, name: realms.activate(name, description=said), said)
        case "INACTIVE":
            return _moved(call, RealmStatus.INACTIVE, lambda realms, name: realms.deactivate(name, description=said), said)
        case None if said is not None:
            return _moved(call, None, lambda realms, name: realms.describe(name, said), said)
        case None:
            raise InvalidInput("it changes nothing.", field="body", remedy="Send a description, a status, or both.")
        case other:
            raise InvalidInput(f"{other[:40]!r} cannot be requested.", field="status", remedy="Use ACTIVE or INACTIVE.")


def activate_realm(call: ManageCall) -> Response:
    return _moved(call, RealmStatus.ACTIVE, lambda realms, name: realms.activate(name))


def deactivate_realm(call: ManageCall) -> Response:
    return _moved(call, RealmStatus.INACTIVE, lambda realms, name: realms.deactivate(name))


def purge_realm(call: ManageCall) -> Response:
    """Marks: maintenance deletes the data, and there is no way back."""
    return _moved(call, RealmStatus.PURGING, lambda realms, name: realms.purge(name))


def delete_realm(call: ManageCall) -> Response:
    realms, name = _realms(call), call.names["realm"]
    _check_version(call, realms.get(name))
    realms.delete(name)
    return Response(204, [NO_STORE], b"")


def _moved(
    call: ManageCall, wanted: RealmStatus | None, move: Callable[[Realms, str], Realm], said: str | None = None
) -> Response:
    """None: the status, or the description, may be what it is."""
    realms, name = _realms(call), call.names["realm"]
    before = realms.get(name)
    is_so = wanted in (None, before.status) and said in (None, before.description)
    if call.run is not None and call.run.again and is_so:  # an earlier run of this request has come so far
        return versioned(RealmMoved(realm=realm_info(before), meta=_meta(realms, before, replayed=True)), _version(before))
    _check_version(call, before)
    moved = move(realms, name)
    return versioned(RealmMoved(realm=realm_info(moved), meta=_meta(realms, moved)), _version(moved))


def _initialized(call: ManageCall, realms: Realms, realm: Realm) -> RealmMade:
    """⚠ A realm that an earlier run of this request has opened gets a new first secret: the other one was never shown."""
    if realm.status is RealmStatus.ACTIVE:
        if call.run is None or not call.run.again:
            raise RealmStateConflict(
                f"{realm.name!r} is {realm.status} already.", field="realm", remedy="Reset the secret of its principal instead."
            )
        meta = WriteMeta(call.caller.name, "Reset the first secret")
        reset = Principals(call.store.kernel(realm.instance)).rotate_secret(ROOT_PRINCIPAL, meta=meta)
        secret = None if reset.credentials is None else reset.credentials.client_secret
        shown = SecretShown(principal=ROOT_PRINCIPAL, client_id=reset.principal.client_id, client_secret=secret)
        return RealmMade(realm=realm_info(realm), credentials=shown, meta=_meta(realms, realm, replayed=True))
    done = realms.init(realm.name)
    shown = SecretShown(principal=done.principal, client_id=done.client_id, client_secret=done.client_secret)
    return RealmMade(realm=realm_info(done.realm), credentials=shown, meta=_meta(realms, done.realm))


def _meta(realms: Realms, realm: Realm, *, replayed: bool = False) -> MutationMeta:
    """The last entry that this request made; seq 0 if an earlier run of it made the entry."""
    logged = realms.last_entry
    return MutationMeta(
        pointer=REALMS_POINTER,
        seq=0 if logged is None else logged.entry.seq,
        entry_id="" if logged is None else logged.entry_id.hex(),
        version=_version(realm),
        etag=f'"{_version(realm)}"',
        time=time_text(realm.changed_at),
        changed=True,
        replayed=replayed,
    )


def _realms(call: ManageCall) -> Realms:
    return Realms(call.store, author=call.caller.name)


def _check_version(call: ManageCall, realm: Realm) -> None:
    if call.version is not None and call.version != _version(realm):
        raise RecordChanged(f"{realm.name!r} was moved meanwhile.", field="version", remedy="Read it again and retry.")


def _version(realm: Realm) -> str:
    return f"{realm.changed_at:x}"


ROUTES = (
    Route(
        "GET",
        REALMS,
        "All realms, in order of name.",
        list_realms,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        parameters=parameters.PAGE,
        answer=RealmsPage,
    ),
    Route(
        "POST",
        REALMS,
        "Create a realm, and open it by default.",
        create_realm,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        BODY,
        body=RealmBody,
        answer=RealmMade,
        status=201,
        kept=without_secret,
    ),
    Route("GET", f"{REALMS}/{{realm}}", "One realm.", get_realm, Over.SYSTEM.needs(Right.SYSTEM_MANAGE), answer=RealmInfo),
    Route(
        "PATCH",
        f"{REALMS}/{{realm}}",
        "Change the description of a realm, open or close it, or both.",
        update_realm,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        BODY,
        body=RealmChange,
        answer=RealmMoved,
    ),
    Route(
        "DELETE",
        f"{REALMS}/{{realm}}",
        "Delete a PURGED or CREATED realm.",
        delete_realm,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        status=204,
    ),
    Route(
        "POST",
        f"{REALMS}/{{realm}}/init",
        "Fill a created realm and open it.",
        init_realm,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        answer=RealmMade,
        kept=without_secret,
    ),
    Route(
        "POST",
        f"{REALMS}/{{realm}}/activate",
        "Open an INACTIVE realm.",
        activate_realm,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        answer=RealmMoved,
    ),
    Route(
        "POST",
        f"{REALMS}/{{realm}}/deactivate",
        "Close an ACTIVE realm: no commit lands in it any more.",
        deactivate_realm,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        answer=RealmMoved,
    ),
    Route(
        "POST",
        f"{REALMS}/{{realm}}/purge",
        "Purge an INACTIVE realm: maintenance deletes its data.",
        purge_realm,
        Over.SYSTEM.needs(Right.SYSTEM_MANAGE),
        answer=RealmMoved,
    ),
)
