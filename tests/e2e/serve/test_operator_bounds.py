"""What an operator sets bounds to: where catalogs may lie, and what a server starts with at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import LocationForbidden
from headwater.service.auth.rights.rights import Right
from headwater.service.storage.storage_roots import storage_roots
from tests.support.fixtures.access_rig import Rig, access_rig
from tests.support.fixtures.cli_runs import headwater


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("bounds")) as made:
        yield made


# ── storage roots ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_catalog_cannot_be_placed_anywhere_that_the_server_reaches(rig: Rig) -> None:
    maker = rig.principal("alpha", "maker", over_realm=(Right.CATALOG_CREATE, Right.CATALOG_UPDATE))
    others = Catalogs(rig.kernel("beta")).get("lake").storage_root
    there = {record.name for record in Catalogs(rig.kernel("alpha")).list()}
    for root in (
        others,
        "file:///",
        "/etc",
        "http://192.0.2.1/",
        "hdfs://127.0.0.1/",
        "../x",
        "s3://b/../x",
        "s3://b?endpoint=x",
    ):
        body = {"name": "placed", "storage_root": root}
        refused = rig.ask("POST", "/manage/v1/alpha/catalogs", token=maker, json=body)
        assert refused.status_code == 400 and refused.json()["code"] == "LOCATION_FORBIDDEN", (root, refused.text)
        assert refused.json()["field"] == "storage_root"
    assert {record.name for record in Catalogs(rig.kernel("alpha")).list()} == there
    made = rig.ask("POST", "/manage/v1/alpha/catalogs", token=maker, json={"name": "placed", "storage_root": "s3://b/x"})
    assert made.status_code == 201
    moved = rig.ask("PATCH", "/manage/v1/alpha/catalogs/placed", token=maker, json={"storage_root": others})
    assert moved.status_code == 400 and moved.json()["code"] == "LOCATION_FORBIDDEN"
    assert Catalogs(rig.kernel("alpha")).get("placed").storage_root == "s3://b/x"


def test_storage_roots_allow_what_is_at_or_below_them_and_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "lakes").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "lakes" / "out").symlink_to(tmp_path / "other")
    lakes = (tmp_path / "lakes").as_uri()
    rule = storage_roots(f"{lakes}/ s3://lake/a", dev=False)
    for root in ("", lakes, f"{lakes}/one", f"{lakes}/one/two/", str(tmp_path / "lakes" / "x"), "s3://lake/a", "s3://lake/a/b"):
        assert rule.check(root) == root
    for root in (
        f"{lakes}2",
        f"{lakes}/../other",
        f"{lakes}/out/x",
        f"{lakes}/%2e%2e/other",
        "s3://lake",
        "s3://lake/ab",
        "s3://other",
    ):
        with pytest.raises(LocationForbidden):
            rule.check(root)
    assert storage_roots("", dev=True).check("file:///x") == "file:///x"


def test_creating_a_table_names_a_missing_storage_root(rig: Rig) -> None:
    root = rig.token("alpha")
    assert rig.ask("POST", "/manage/v1/alpha/catalogs", token=root, json={"name": "rootless"}).status_code == 201
    assert rig.ask("POST", "/iceberg/v1/rootless/namespaces", token=root, json={"namespace": ["a"]}).status_code == 200
    body = {"name": "t", "schema": {"type": "struct", "schema-id": 0, "fields": []}}
    refused = rig.ask("POST", "/iceberg/v1/rootless/namespaces/a/tables", token=root, json=body)
    assert refused.status_code == 400 and "no storage root" in refused.json()["error"]["message"], refused.text


def test_no_namespace_is_created_that_no_path_can_name(rig: Rig) -> None:
    root, before = rig.token("alpha"), rig.get("/feed/v1/alpha/pointers", rig.token("alpha")).json()
    for path, body in (
        ("/iceberg/v1/lake/namespaces", {"namespace": ["sales\x1finner"]}),
        ("/manage/v1/alpha/catalogs/lake/namespaces", {"path": ["sales\x1finner"]}),
    ):
        assert rig.ask("POST", path, token=root, json=body).status_code == 400, path
    assert rig.get("/feed/v1/alpha/pointers", root).json() == before


# ── the operator's own slips ────────────────────────────────────────────────────────────────────────────────


def test_an_invalid_start_is_one_line_and_starts_no_worker(tmp_path: Path) -> None:
    issuers, no_pem = tmp_path / "issuers.toml", tmp_path / "no.pem"
    issuers.write_text('[[issuers]]\nissuer = "headwater"\naudience = "x"\nrealm = "default"\n')
    no_pem.write_text("nothing")
    store = f"sqlite:///{tmp_path / 'lake.db'}"
    for slip, field in (
        (("--set", f"oidc_config={issuers}"), "oidc_config"),
        (("--set", f"oidc_config={tmp_path / 'none'}"), "oidc_config"),
        (("--set", "authorizer=nobody"), "authorizer"),
        (("--set", "principal_provider=nobody"), "principal_provider"),
        (("--set", f"tls_certificate={no_pem}", "--set", f"tls_key={no_pem}"), "tls_certificate"),
    ):
        assert headwater(*slip, "--store", store, "serve").error.startswith(f"error INVALID_INPUT: {field}: ")
