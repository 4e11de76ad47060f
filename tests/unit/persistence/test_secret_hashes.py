"""Secrets are kept as salted scrypt hashes that carry their own parameters."""

from __future__ import annotations

import secrets

import msgspec
import pytest

from headwater.persistence.records.principal_records import SecretRecord, names_secret, new_principal
from headwater.persistence.records.secret_hashes import ScryptCost, hash_secret, is_secret
from headwater.schemas.errors import Corruption
from tests.support.models.realm_cases import CHEAP


def test_only_the_same_secret_fits_its_hash() -> None:
    hashed = hash_secret("correct horse", ScryptCost(), secrets.token_bytes)
    assert hashed.startswith("scrypt$16384,8,5$")
    assert is_secret("correct horse", hashed)
    assert not is_secret("correct hors", hashed)


def test_one_secret_has_another_hash_each_time() -> None:
    assert hash_secret("s", CHEAP, secrets.token_bytes) != hash_secret("s", CHEAP, secrets.token_bytes)


def test_a_hash_is_checked_with_the_cost_that_it_was_made_with() -> None:
    for cost in (CHEAP, ScryptCost(n=64, r=2, p=3)):
        assert is_secret("s", hash_secret("s", cost, secrets.token_bytes))


@pytest.mark.parametrize("broken", ["", "plain", "md5$1,1,1$AA==$AA==", "scrypt$x,1,1$AA==$AA==", "scrypt$2,1,1$%$AA=="])
def test_a_hash_that_cannot_be_read_is_corruption_not_a_wrong_password(broken: str) -> None:
    with pytest.raises(Corruption):
        is_secret("s", broken)


def test_the_record_of_a_principal_does_not_hold_its_secret() -> None:
    made = new_principal("root", 1, CHEAP, secrets.token_bytes)
    assert made.client_secret not in repr(made.value) and "scrypt" not in repr(made.value)
    assert made.value["client_id"] == made.client_id
    assert names_secret(made.value, made.client_secret, now=2) and not names_secret(made.value, "00000000_x", now=2)
    assert is_secret(made.client_secret, msgspec.msgpack.decode(made.secret.payload, type=SecretRecord).hash)
    assert len(made.client_secret) >= 43  # 256 bits: no hash rate of this world guesses it
