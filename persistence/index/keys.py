"""Encodes a path of names as bytes that sort like the tree, and decodes it. A subtree is a range of keys.

Elements are joined by NUL, the smallest byte and the one that no element may hold. So a parent sorts right before its children,
a subtree is one contiguous range, and `acc` is not a prefix of `accounting`. No key begins or ends with NUL or holds two in a
row, which leaves NUL NUL free as the separator of key columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.schemas.errors import InvalidInput

ELEMENTS_MAX = 20
ELEMENT_BYTES_MAX = 500
KEY_BYTES_MAX = 1_000
"""Of the encoded key: what fits a key column of every database, and many keys into one stripe."""

START = b""
"""A bound at or below every key."""
END = b"\xff"
"""A bound above every key: the byte does not occur in UTF-8."""

_SEPARATOR = b"\0"
_AFTER_SEPARATOR = b"\1"


def encode_key(path: Sequence[str]) -> bytes:
    """`InvalidInput` names what is wrong; everything else has exactly one encoding."""
    try:
        key = "\0".join(path).encode()
    except (TypeError, UnicodeEncodeError):
        return _encode_checked(path)
    if len(key) > ELEMENT_BYTES_MAX or isinstance(path, str) or key.count(_SEPARATOR) != len(path) - 1:
        return _encode_checked(path)
    # Short, and with a NUL between elements and nowhere else: only an empty element can still be wrong.
    if not all(path) or not 1 <= len(path) <= ELEMENTS_MAX:
        return _encode_checked(path)
    return key


def _encode_checked(path: Sequence[str]) -> bytes:
    """Element by element, so that an error can say which."""
    if isinstance(path, str):
        raise InvalidInput("a key is a list of names, not one string.", field="key", remedy=f"Send [{path!r}].")
    if not 1 <= len(path) <= ELEMENTS_MAX:
        raise InvalidInput(f"a key has {len(path)} elements.", field="key", remedy=f"Use 1 to {ELEMENTS_MAX} elements.")
    key = _SEPARATOR.join([_encode_element(position, element) for position, element in enumerate(path)])
    if len(key) > KEY_BYTES_MAX:
        raise InvalidInput(f"a key takes {len(key)} bytes.", field="key", remedy=f"Use at most {KEY_BYTES_MAX} bytes in all.")
    return key


def decode_key(key: bytes) -> tuple[str, ...]:
    return tuple(key.decode().split("\0"))


def subtree_bounds(path: Sequence[str]) -> tuple[bytes, bytes]:
    """[lower, upper) of the key itself and everything below it, level by level."""
    key = encode_key(path)
    return key, key + _AFTER_SEPARATOR


def children_bounds(path: Sequence[str], beginning: str = "") -> tuple[bytes, bytes]:
    """[lower, upper) of everything below a path, without the key itself; below the empty path lies everything. With a
    beginning, of those alone whose next name has it, and of what lies below them."""
    lower = encode_key(path) + _SEPARATOR if path else START
    if beginning:
        return lower + beginning.encode(), lower + beginning.encode() + END
    return lower, lower[:-1] + _AFTER_SEPARATOR if path else END


def just_after(key: bytes) -> bytes:
    """The least bound above `key`: what a page that ended with `key` continues from."""
    return key + _SEPARATOR


def check_encoded(key: bytes) -> None:
    """Refuse bytes that `encode_key` cannot have made: in a column they would read back as other keys."""
    if not key or key[0] == 0 or key[-1] == 0 or b"\0\0" in key or key >= END or len(key) > KEY_BYTES_MAX:
        raise InvalidInput(f"{key[:40]!r} is not an encoded key.", field="key", remedy="Make keys with encode_key.")


def _encode_element(position: int, element: str) -> bytes:
    if not isinstance(element, str):
        raise InvalidInput(
            f"element {position + 1} is {type(element).__name__}.", field="key", remedy="Use strings for all elements."
        )
    try:
        encoded = element.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"element {position + 1} is not valid Unicode.", field="key", remedy="Remove lone surrogates."
        ) from None
    if not encoded:
        raise InvalidInput(f"element {position + 1} is empty.", field="key", remedy="Leave it out or name it.")
    if len(encoded) > ELEMENT_BYTES_MAX:
        raise InvalidInput(
            f"element {position + 1} takes {len(encoded)} bytes.",
            field="key",
            remedy=f"Use at most {ELEMENT_BYTES_MAX} bytes of UTF-8.",
        )
    if _SEPARATOR in encoded:
        raise InvalidInput(f"element {position + 1} holds a NUL.", field="key", remedy="Remove it.")
    return encoded
