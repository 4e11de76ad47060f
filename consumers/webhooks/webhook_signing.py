"""Signs a webhook's body and time with the shared secrets, and checks the signature for receivers. Pure.

`Headwater-Signature: t=<unix seconds>,v1=<hex>`, where v1 is HMAC-SHA256 over `<t>.<body>`. While a secret is being changed
there is one v1 for each.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

SIGNATURE_HEADER = "headwater-signature"
TOLERANCE_SECONDS = 300
SIGNATURES_MAX = 10
"""That a receiver looks at: a header is not a way to make it work."""


def sign(body: bytes, secrets: Sequence[bytes], at_seconds: int) -> str:
    return ",".join([f"t={at_seconds}", *(f"v1={_digest(body, secret, at_seconds)}" for secret in secrets)])


def is_signed(
    body: bytes, header: str, secret: bytes, now_seconds: float, *, tolerance_seconds: float = TOLERANCE_SECONDS
) -> bool:
    """Whether it was signed with the secret, and not longer ago than the tolerance: what is older may be a repeat."""
    parts = [part.strip().partition("=") for part in header.split(",")[: SIGNATURES_MAX + 1]]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdecimal() and len(times[0]) < 16):
        return False
    at_seconds = int(times[0])
    expected = _digest(body, secret, at_seconds)
    matches = [hmac.compare_digest(value.encode(), expected.encode()) for name, _, value in parts if name == "v1"]
    return any(matches) and abs(now_seconds - at_seconds) <= tolerance_seconds


def _digest(body: bytes, secret: bytes, at_seconds: int) -> str:
    return hmac.new(secret, f"{at_seconds}.".encode() + body, hashlib.sha256).hexdigest()
