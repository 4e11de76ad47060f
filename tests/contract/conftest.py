"""The contract suite runs on every backend in turn: fixtures `backend`, `other_backend`, `realm` and their like."""

from tests.support.fixtures.contract_fixtures import (
    backend,
    kind,
    new_store,
    other_backend,
    other_realm,
    realm,
    scale,
    store_url,
)

__all__ = ["backend", "kind", "new_store", "other_backend", "other_realm", "realm", "scale", "store_url"]
