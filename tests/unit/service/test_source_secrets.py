"""A connector's secret comes from its own realm's folder alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.persistence.realms.realm_records import check_realm_name
from headwater.schemas.errors import AddressForbidden, InvalidInput, InvalidName
from headwater.service.reconciling.source_secrets import check_secret_ref, read_secret
from headwater.service.reconciling.sources.upstream import Upstream


def test_a_secret_is_read_from_its_realms_folder(tmp_path: Path) -> None:
    (tmp_path / "alpha" / "nessie").mkdir(parents=True)
    (tmp_path / "alpha" / "nessie" / "token").write_bytes(b"t0ken")
    assert read_secret(str(tmp_path), "alpha", "nessie/token") == b"t0ken"
    assert read_secret(str(tmp_path), "alpha", "") == b""


@pytest.mark.parametrize(
    "reference", ["../beta/token", "/etc/passwd", "a/../../beta/token", "a//b", ".hidden", "a\x00b", "x" * 200]
)
def test_a_path_that_leaves_the_folder_is_refused(reference: str) -> None:
    with pytest.raises(InvalidInput):
        check_secret_ref(reference)


def test_a_link_that_leads_to_another_realm_is_refused(tmp_path: Path) -> None:
    for realm in ("alpha", "beta"):
        (tmp_path / realm).mkdir()
    (tmp_path / "beta" / "token").write_bytes(b"secret of beta")
    (tmp_path / "alpha" / "link").symlink_to(tmp_path / "beta" / "token")
    with pytest.raises(InvalidInput, match="there is no secret"):
        read_secret(str(tmp_path), "alpha", "link")


@pytest.mark.parametrize(("realm", "reference"), [(".", "beta/token"), ("..", "secrets/beta/token")])
def test_a_realm_named_like_a_folder_above_reads_no_secret_of_others(tmp_path: Path, realm: str, reference: str) -> None:
    (tmp_path / "secrets" / "beta").mkdir(parents=True)
    (tmp_path / "secrets" / "beta" / "token").write_bytes(b"secret of beta")
    with pytest.raises(InvalidInput, match="there is no secret"):
        read_secret(str(tmp_path / "secrets"), realm, reference)
    with pytest.raises(InvalidName):
        check_realm_name(realm)


def test_without_a_folder_there_are_no_secrets() -> None:
    with pytest.raises(InvalidInput, match="no folder of secrets"):
        read_secret("", "alpha", "token")


def test_a_name_that_leads_to_a_private_address_the_second_time_is_not_called() -> None:
    answers = iter([["192.0.66.1"], ["10.0.0.1"]])
    upstream = Upstream("http://catalog.example.com", private_hosts=frozenset(), resolve=lambda host, port: next(answers))
    next(answers)
    with pytest.raises(AddressForbidden):
        upstream.get("/v1/config")
    upstream.close()
