"""Reads a whole number from text that someone else wrote: a header, a property, a name."""

from __future__ import annotations

NUMBER_MAX = 2**63 - 1


def whole_number(text: str) -> int | None:
    """None for everything but ASCII digits of a number up to `NUMBER_MAX`. ⚠ `int` alone raises `ValueError` for `²`, of which
    `str.isdigit` is true, and for more than a few thousand digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(NUMBER_MAX))):
        return None
    number = int(text)
    return number if number <= NUMBER_MAX else None
