"""The settings of a catalog: properties with a meaning to the server, each with a safe default.

They are written like other properties, `headwater catalog update lake --property engine_gc=allow`, and a value that the
setting does not know is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from headwater.schemas.errors import InvalidInput


class Guard(StrEnum):
    REFUSE = "refuse"
    ALLOW = "allow"


ENGINE_GC = "engine_gc"
"""Whether engines may delete files of tables by themselves, knowing one branch alone."""
TABLE_OVERLAP = "table_overlap"
"""Whether a table may be created, registered or moved onto a location that overlaps that of another table."""
WRITE_WITHOUT_HASH = "write_without_hash"
"""Whether a write of the Nessie API may leave out the commit that the writer has seen, and so mean the newest one."""
CLAIM_ROOT = "claim_root"
"""Whether this store may claim the catalog's storage root, and so delete files below it that nothing needs."""
SETTINGS = {
    ENGINE_GC: Guard.REFUSE,
    TABLE_OVERLAP: Guard.REFUSE,
    WRITE_WITHOUT_HASH: Guard.ALLOW,
    CLAIM_ROOT: Guard.ALLOW,
}
"""With their defaults."""


def guard_of(properties: Mapping[str, str], setting: str) -> Guard:
    """⚠ Anything but `allow` refuses: a record of another version may hold what this one does not know."""
    return Guard.ALLOW if properties.get(setting, SETTINGS[setting]) == Guard.ALLOW else Guard.REFUSE


def check_settings(properties: Mapping[str, str]) -> None:
    for setting, default in SETTINGS.items():
        value = properties.get(setting, default)
        if value not in tuple(Guard):
            raise InvalidInput(
                f"{setting} is neither refuse nor allow: {value[:80]!r}.",
                field=f"properties.{setting}",
                remedy=f"Use refuse or allow, or leave it out: {default} is the default.",
            )
