"""The stateful tests run on every backend in turn, as the contract suite does."""

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
