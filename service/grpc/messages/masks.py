"""Checks update masks: required, known paths only, and no path beside its parent."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.field_mask_pb2 import FieldMask

from headwater.schemas.errors import InvalidInput


def masked(mask: FieldMask, known: Iterable[str]) -> frozenset[str]:
    paths, names = list(mask.paths), sorted(known)
    remedy = f"Name some of {', '.join(names)}."
    if not paths:
        raise InvalidInput("it names nothing.", field="update_mask", remedy=remedy)
    for path in paths:
        if path in names:
            continue
        parent = path.partition(".")[0]
        if parent in names and parent in paths:
            raise InvalidInput(f"{path[:80]!r} is listed together with its parent.", field="update_mask", remedy=remedy)
        raise InvalidInput(f"{path[:80]!r} cannot be updated.", field="update_mask", remedy=remedy)
    return frozenset(paths)
