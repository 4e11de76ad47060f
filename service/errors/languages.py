"""Chooses the best available language for an Accept-Language header; English if none fits."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from headwater.service.errors.translations import ENGLISH, catalogues
from headwater.service.http.responses import Scope, header

HEADER_BYTES_MAX = 256
"""The header is read up to this length."""
KEPT_HEADERS_MAX = 256


def language_of(scope: Scope, folder: str = "") -> str:
    given = header(scope, b"accept-language")
    return ENGLISH if given is None else _best(given[:HEADER_BYTES_MAX].decode("latin-1"), folder)


@lru_cache(maxsize=KEPT_HEADERS_MAX)
def _best(given: str, folder: str) -> str:
    return best_language(given, {ENGLISH, *catalogues(folder)})


def best_language(given: str, known: Collection[str]) -> str:
    """By weight, then by order; `de-CH` is served by `de`."""
    wanted = []
    for position, part in enumerate(given.split(",")):
        tag, _, weight = part.strip().partition(";")
        weight = weight.strip().removeprefix("q=")
        try:
            wanted.append((-float(weight) if weight else -1.0, position, tag.strip().lower()))
        except ValueError:
            continue
    for weighed, _, tag in sorted(wanted):
        if not weighed < 0:
            break
        while tag:
            if tag in known:
                return tag
            tag = tag.rpartition("-")[0]
    return ENGLISH
