"""Decodes a request body into the struct that its route declares."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from headwater.schemas.errors import InvalidInput

T = TypeVar("T")


def decode_body(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The fault names the path in the body, as `$.operations[0]`."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `")
        raise InvalidInput(
            f"{what}.", field=where.rstrip("`") or "body", remedy="`/openapi.json` describes the body."
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not JSON: {error}.", field="body", remedy="Send a JSON object.") from None
