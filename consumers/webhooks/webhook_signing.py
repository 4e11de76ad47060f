"""Signs webhooks by the Standard Webhooks specification, so that receivers can verify them with any of its libraries.

`webhook-signature` holds one `v1,<base64>` for each secret: HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra

with needs_extra("sending webhooks"):
    from standardwebhooks import Webhook as Signer

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with
SECRET_BYTES = 32
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def check_secret(text: str) -> str:
    """A secret as the specification writes it; anything else would be decoded to other bytes by the receiver."""
    try:
        raw = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not text.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(raw) <= SECRET_BYTES_MAX:
        raise InvalidInput(
            "the secret is not whsec_ and 24 to 64 bytes in base64.",
            field="secret",
            remedy="`headwater webhook secret` makes one; give it to the receiver too.",
        )
    return text


def signed_headers(id: str, body: bytes, secrets: Sequence[str], at_seconds: int) -> dict[str, str]:
    """With one signature for each secret, so that a receiver can change over from one to the next."""
    at = datetime.fromtimestamp(at_seconds, tz=UTC)
    signatures = [Signer(secret).sign(id, at, body.decode()) for secret in secrets]
    return {"webhook-id": id, "webhook-timestamp": str(at_seconds), "webhook-signature": " ".join(signatures)}
