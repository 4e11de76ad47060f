"""Refuses what would show a table's files or values to a caller that does not enforce its column masks and row filters.

⚠ Masks and filters are enforced by the engine that reads. A list of files, credentials for them, or bounds of columns go past
it, so all of them take the right `obligation.enforce` over a table that has obligations.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.persistence.store import RealmKernel
from headwater.producer.access.obligations import KnownObligations, Obligation, ObligationRules
from headwater.schemas.change import KeyPath
from headwater.service.auth.access import Access
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rights import Right, Securable


class ObligationGuard:
    """One per caller and realm. Its methods may wait for the store."""

    def __init__(self, known: KnownObligations, kernel: RealmKernel, access: Access, caller: Caller) -> None:
        self._known, self._kernel = known, kernel
        self._access, self._caller = access, caller

    def now(self) -> ObligationRules:
        return self._known.now(self._kernel)

    def at(self, entry_id: bytes) -> ObligationRules:
        return self._known.at(self._kernel, entry_id)

    def require(self, rules: ObligationRules, catalog: str, catalog_id: int, key: KeyPath) -> list[Obligation]:
        """The table's obligations; `NotPermitted` if there are some and the caller does not enforce them."""
        found = rules.of(catalog_id, key)
        if found:
            self._access.check(self._caller, Right.OBLIGATION_ENFORCE, Securable(catalog, key))
        return found

    def allows(self, rules: ObligationRules, catalog: str, catalog_id: int, keys: Iterable[KeyPath]) -> bool:
        """Whether the caller may see files and values of all these tables."""
        guarded = [key for key in keys if rules.of(catalog_id, key)]
        over = (Securable(catalog, key) for key in guarded)
        return all(self._access.allows_now(self._caller, Right.OBLIGATION_ENFORCE, one) for one in over)
