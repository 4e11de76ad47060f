"""The log of all references and the log of `::system::`: who may read them, and what they see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.persistence.realms.realms import Realms
from headwater.producer.access.administrators import make_administrator
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.roles import principal_roles
from headwater.service.auth.rights.rights import Right
from tests.support.fixtures.access_rig import CHEAP, META, Rig, access_rig

MAIN = "cat/1/heads/main"
REFLOG = "/feed/v1/alpha/reference-log?catalog=lake"
SYSTEM = "/feed/v1/::system::"
REFERENCES = "/manage/v1/alpha/catalogs/lake/references"


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("logs")) as made:
        yield made


def _system_token(rig: Rig, name: str, *rights: Right) -> str:
    system = rig.store.system
    made = Principals(system, cost=CHEAP).create(name, meta=META)
    principal_roles(system).create(f"{name}-role", meta=META)
    principal_roles(system).assign(name, f"{name}-role", meta=META)
    for right in rights:
        realm_grants(system).grant(f"{name}-role", right, meta=META)
    assert made.credentials is not None
    answer = rig.token_answer("::system::", made.credentials)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def _admin_token(rig: Rig) -> str:
    made = make_administrator(rig.store.system, "admin", META)
    assert made.credentials is not None
    return str(rig.token_answer("::system::", made.credentials).json()["access_token"])


def _all_pages(rig: Rig, url: str, token: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    page = rig.get(url, token).json()
    found += page["changes"]
    while page.get("next_token"):
        page = rig.get(f"{url}&token={page['next_token']}", token).json()
        found += page["changes"]
    return found


# ── all references ──────────────────────────────────────────────────────────────────────────────────────────


def _moved(rig: Rig) -> None:
    rig.commit("alpha", ("db",), ("other",))
    root = rig.token("alpha")
    made = rig.ask("POST", REFERENCES, token=root, json={"name": "dev", "type": "branch", "source": "main"})
    assert made.status_code == 201, made.text
    rig.commit("alpha", ("other", "sub"), branch="dev")
    assert rig.ask("DELETE", f"{REFERENCES}/branch/dev", token=root).status_code == 200
    rig.commit("alpha", ("db", "sub"))


def test_the_log_of_all_references_has_every_move_and_pages_do_not_change_it(rig: Rig) -> None:
    _moved(rig)
    root = rig.token("alpha")
    whole = rig.get(REFLOG, root).json()
    assert "withheld" not in whole and "next_token" not in whole
    moves = [(one["pointer"], one["kind"]) for one in whole["changes"]]
    dev = "cat/1/heads/dev"
    assert moves == [
        (MAIN, "commit"), (dev, "delete"), (dev, "commit"), (dev, "create"), (MAIN, "commit"), (MAIN, "create"),
    ]  # fmt: skip
    assert _all_pages(rig, f"{REFLOG}&limit=1", root) == whole["changes"]
    kinds = [one["kind"] for one in rig.get(f"{REFLOG}&kind=create&kind=delete", root).json()["changes"]]
    assert kinds == ["delete", "create", "create"]


def test_a_reader_of_one_namespace_sees_moves_and_its_keys_of_all_references(rig: Rig) -> None:
    _moved(rig)
    reader = rig.principal("alpha", "reader", Right.FEED_READ, path=("db",))
    page = rig.get(REFLOG, reader).json()
    assert page["withheld"] is True
    assert [one["kind"] for one in page["changes"]] == ["commit", "delete", "create", "commit", "create"]
    assert [[op["key"] for op in one["operations"]] for one in page["changes"] if one["kind"] == "commit"] == [
        [["db", "sub"]], [["db"]],
    ]  # fmt: skip
    assert "other" not in rig.get(REFLOG, reader).text
    assert _all_pages(rig, f"{REFLOG}&limit=1", reader) == page["changes"]


def test_a_catalog_without_readable_content_is_not_found(rig: Rig) -> None:
    stranger = rig.principal("alpha", "stranger")
    refused, absent = rig.get(REFLOG, stranger), rig.get("/feed/v1/alpha/reference-log?catalog=none", stranger)
    assert refused.status_code == absent.status_code == 404
    assert refused.json()["detail"].replace("lake", "none") == absent.json()["detail"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "catalog"),
        ("catalog=lake&kind=move", "kind"),
        ("catalog=lake&limit=0", "limit"),
        ("catalog=lake&token=x", "page_token"),
    ],
)
def test_a_bad_query_of_the_reference_log_names_its_field(rig: Rig, query: str, field: str) -> None:
    answer = rig.get(f"/feed/v1/alpha/reference-log?{query}", rig.token("alpha"))
    assert answer.status_code == 400 and answer.json()["field"] == field, answer.text


# ── the system's own log ────────────────────────────────────────────────────────────────────────────────────


def test_a_system_administrator_and_an_auditor_read_the_moves_of_realms(rig: Rig) -> None:
    realms = Realms(rig.store, author="ada")
    realms.create("gamma")
    realms.init("gamma")
    realms.deactivate("gamma")
    admin, auditor = _admin_token(rig), _system_token(rig, "auditor", Right.FEED_READ)
    pages = [rig.get(f"{SYSTEM}/changes?pointer=realms", token).json() for token in (admin, auditor)]
    assert pages[0]["changes"] == pages[1]["changes"] and "withheld" not in pages[1]
    gamma = [one for one in pages[0]["changes"] if one["operations"][0]["key"] == ["gamma"]]
    statuses = [one["operations"][0]["after"]["status"] for one in gamma]
    assert statuses == ["CREATED", "INITIALIZING", "ACTIVE", "INACTIVE"] and {one["author"] for one in gamma} == {"ada"}
    [entry] = [one["entry_id"] for one in gamma][-1:]
    assert rig.get(f"{SYSTEM}/commits/{entry}", auditor).json() == gamma[-1]
    state = rig.get(f"{SYSTEM}/snapshot?pointer=realms", auditor).json()
    assert [one["key"] for one in state["entries"]] == [["alpha"], ["beta"], ["gamma"]]
    assert {one["name"] for one in rig.get(f"{SYSTEM}/pointers", auditor).json()["pointers"]} == {"realms"}
    shown = {one["name"] for one in rig.get(f"{SYSTEM}/pointers", admin).json()["pointers"]}
    assert {"realms", "principals", "principal-roles", "grants"} <= shown


def test_others_cannot_read_the_systems_log_and_nobody_writes_it(rig: Rig) -> None:
    nothing, admin = _system_token(rig, "nothing"), _admin_token(rig)
    assert rig.get(f"{SYSTEM}/changes?pointer=realms").status_code == 401
    assert rig.get(f"{SYSTEM}/changes?pointer=realms", rig.token("alpha")).status_code == 403
    assert rig.get(f"{SYSTEM}/changes?pointer=realms", nothing).status_code == 404
    assert rig.get(f"{SYSTEM}/pointers", nothing).json()["pointers"] == []
    auditor = _system_token(rig, "auditor", Right.FEED_READ)
    assert rig.get(f"{SYSTEM}/changes?pointer=principals", auditor).status_code == 404
    body = {"catalog": "lake", "operations": [{"op": "delete", "key": ["db"]}]}
    for token in (auditor, admin):
        assert rig.ask("POST", f"{SYSTEM}/commit", token=token, json=body).status_code in (400, 403, 404)
        assert rig.get(f"{SYSTEM}/reference-log?catalog=lake", token).status_code in (400, 404)
        put = rig.ask("PUT", f"{SYSTEM}/subscriptions/s", token=token, json={"pointers": ["realms"]})
        assert put.status_code in (400, 403, 404)
    assert rig.store.backend.list_mutable("::system::", "subscription") == []
