"""The settings of access that the server gives clients to the files of one table: short-lived credentials and signatures."""

from __future__ import annotations

import re

import msgspec

from headwater.schemas.errors import InvalidInput

ROLE_SECONDS_MIN, ROLE_SECONDS_MAX = 900, 43_200
"""What STS takes."""
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")


class DelegationOptions(msgspec.Struct, frozen=True):
    role: str = ""
    """The role that is assumed for each table; empty: no credentials are made."""
    seconds: int = 3_600
    sts_endpoint: str = ""
    """Empty: that of AWS for the region."""
    signs: bool = False
    """Whether the server signs single requests."""


def delegation_options(role: str, seconds: int, sts_endpoint: str, *, signs: bool) -> DelegationOptions:
    if role and not _ROLE.fullmatch(role):
        raise InvalidInput(f"{role[:200]!r} is not a role.", field="storage_role", remedy="Use arn:aws:iam::ACCOUNT:role/NAME.")
    return DelegationOptions(role, seconds, sts_endpoint, signs)
