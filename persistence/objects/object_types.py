"""The registry of object types: which struct a stable short name stands for. Open to plug-ins.

A type is a frozen msgspec struct (array-like, so that rows stay compact and later versions may append fields), a short name
that is stored in every row, and a declared life, which decides who may delete it.
"""

from __future__ import annotations

import enum
import functools
import re
from importlib import metadata
from typing import Generic, TypeVar

import msgspec

from headwater.schemas.errors import DuplicateRegistration, InvalidName

T = TypeVar("T", bound=msgspec.Struct)

ENTRY_POINT_GROUP = "headwater.object_types"
"""An entry point of this group names an `ObjectType` to be registered."""

_SHORT_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}")


class Life(enum.Enum):
    LOGGED = "logged"
    """Kept while it can be reached from a pointer; swept afterwards."""
    OWNED = "owned"
    """Lives and is swept with the object that names it."""
    ATTACHED = "attached"
    """Has the negated id of the object that it belongs to, and is swept with it: nothing else has to name it."""
    TIMED = "timed"
    """Kept until the time in its `created_at`, reachable or not; swept afterwards."""
    MUTABLE = "mutable"
    """Has its own expiry; sweeps never touch it."""


def attached_id(owner_id: int) -> int:
    """The id of the object that is attached to this one."""
    return -owner_id


def owner_id(object_id: int) -> int:
    """The id whose place in the retained set decides about a row: its own, or that of the object it is attached to."""
    return abs(object_id)


class ObjectType(Generic[T]):
    """The name, struct and life of one kind of object."""

    def __init__(self, name: str, struct: type[T], life: Life, *, owner: str = "") -> None:
        """`owner` is the type that an attached one belongs to."""
        if not _SHORT_NAME.fullmatch(name):
            raise InvalidName(
                f"{name!r} is not an object type name.",
                field="object type",
                remedy="Use 1 to 32 of a-z, 0-9, '.' and '-', beginning with a letter or digit.",
            )
        if not struct.__struct_config__.frozen:
            raise InvalidName(
                f"{struct.__name__} is mutable.", field=f"object type {name}", remedy="Declare the struct frozen=True."
            )
        self.name = name
        self.struct = struct
        self.life = life
        self.owner = owner
        self.encode_body = msgspec.msgpack.Encoder().encode
        self.decode_body = msgspec.msgpack.Decoder(struct).decode

    def __repr__(self) -> str:
        return f"ObjectType({self.name!r}, {self.struct.__name__}, {self.life.value})"


class ObjectTypes:
    """The registry: one name, one type."""

    def __init__(self) -> None:
        self._by_name: dict[str, ObjectType[msgspec.Struct]] = {}

    def register(self, object_type: ObjectType[T]) -> ObjectType[T]:
        known = self._by_name.get(object_type.name)
        if known is not None and known is not object_type:
            raise DuplicateRegistration(
                f"object type {object_type.name!r} is already registered for {known.struct.__qualname__}.",
                field="object type",
                remedy="Give one of the two another name.",
            )
        self._by_name[object_type.name] = object_type  # type: ignore[assignment]
        return object_type

    def find(self, name: str) -> ObjectType[msgspec.Struct] | None:
        """None for a type that is not registered: such objects are carried as bytes, never purged, and never cause a crash."""
        return self._by_name.get(name)

    def timed(self) -> frozenset[str]:
        """Types whose rows are swept by their time alone."""
        return frozenset(name for name, known in self._by_name.items() if known.life is Life.TIMED)

    def attached(self) -> dict[str, str]:
        """Types that are swept with their owners, and the types of these."""
        return {name: known.owner for name, known in self._by_name.items() if known.life is Life.ATTACHED}

    def names(self) -> list[str]:
        return sorted(self._by_name)


OBJECT_TYPES = ObjectTypes()
"""The built-in types; each module that defines one registers it here at import."""


@functools.cache
def all_object_types() -> ObjectTypes:
    """The built-in types and those of installed plug-ins."""
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        OBJECT_TYPES.register(entry_point.load())
    return OBJECT_TYPES
