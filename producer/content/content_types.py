"""The content types, tables, views, functions and namespaces, as structs and as stored values.

A content type is a name that is stored with every value, a small number that stands for it in the index, and a frozen struct.
The registry is open to plug-ins; a type that is not registered is carried as `OtherContent`, unread and unchanged.
"""

from __future__ import annotations

import functools
import re
from importlib import metadata
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from headwater.producer.json_safety import check_size, check_value
from headwater.schemas.change import Value
from headwater.schemas.errors import DuplicateRegistration, InvalidInput, InvalidName

ENTRY_POINT_GROUP = "headwater.content_types"
"""An entry point of this group names a `ContentType` to be registered."""

OTHER_TAG = 255
"""In the index for every type that is not registered: the name is in the content."""
PLUGIN_TAGS = range(64, OTHER_TAG)

Location: TypeAlias = Annotated[str, Meta(pattern=r"\S", max_length=8_192)]
SmallId: TypeAlias = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
LongId: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_TYPE_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True):
    """What other keys live in. Its elements are its key."""

    properties: dict[str, str] = {}


class IcebergTable(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata_location: Location
    snapshot_id: LongId | None = None
    schema_id: SmallId | None = None
    spec_id: SmallId | None = None
    sort_order_id: SmallId | None = None


class IcebergView(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata_location: Location
    version_id: LongId | None = None
    schema_id: SmallId | None = None


class DeltaTable(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata_location_history: list[Location]
    checkpoint_location_history: list[Location]
    last_checkpoint: str | None = None


class Udf(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function, by its metadata or, as older clients send it, by its text."""

    metadata_location: Location | None = None
    version_id: str | None = None
    signature_id: str | None = None
    sql_text: Location | None = None
    dialect: str | None = None


class OtherContent(msgspec.Struct, frozen=True):
    """A content whose type is not known here: kept as it came."""

    type: str
    value: Value


AnyContent: TypeAlias = msgspec.Struct
"""One of the structs above, one of a plug-in, or `OtherContent`."""


class ContentType(msgspec.Struct, frozen=True, dict=True):
    name: str
    tag: int
    struct: type[msgspec.Struct]

    @property
    def fields(self) -> tuple[str, ...]:
        return self.struct.__struct_fields__

    @functools.cached_property
    def field_set(self) -> frozenset[str]:
        return frozenset(self.fields)


class ContentTypes:
    """The registry: one name, one tag, one struct."""

    def __init__(self) -> None:
        self._by_name: dict[str, ContentType] = {}
        self._by_tag: dict[int, ContentType] = {}
        self._by_struct: dict[type, ContentType] = {}

    def register(self, content_type: ContentType) -> ContentType:
        if not _TYPE_NAME.fullmatch(content_type.name):
            raise InvalidName(
                f"{content_type.name!r} is not a content type.",
                field="content type",
                remedy="Use 1 to 64 of A-Z, 0-9 and _, beginning with a letter.",
            )
        if not 1 <= content_type.tag < OTHER_TAG:
            raise InvalidInput(
                f"{content_type.tag} is not a tag for {content_type.name}.",
                field="content type",
                remedy=f"Plug-ins use {PLUGIN_TAGS.start} to {PLUGIN_TAGS.stop - 1}.",
            )
        for known in (self._by_name.get(content_type.name), self._by_tag.get(content_type.tag)):
            if known is not None and known != content_type:
                raise DuplicateRegistration(
                    f"content type {content_type.name!r} (tag {content_type.tag}) clashes with {known.name!r} ({known.tag}).",
                    field="content type",
                    remedy="Give one of the two another name and tag.",
                )
        self._by_name[content_type.name] = content_type
        self._by_tag[content_type.tag] = content_type
        self._by_struct[content_type.struct] = content_type
        return content_type

    def find(self, name: str) -> ContentType | None:
        return self._by_name.get(name)

    def of_struct(self, struct: type) -> ContentType | None:
        return self._by_struct.get(struct)

    def tag_of(self, name: str) -> int:
        known = self._by_name.get(name)
        return OTHER_TAG if known is None else known.tag

    def name_of(self, tag: int) -> str | None:
        """None where only the content itself shows its type."""
        known = self._by_tag.get(tag)
        return None if known is None else known.name

    def names(self) -> list[str]:
        return sorted(self._by_name)


CONTENT_TYPES = ContentTypes()
NAMESPACE = CONTENT_TYPES.register(ContentType("NAMESPACE", 1, Namespace))
ICEBERG_TABLE = CONTENT_TYPES.register(ContentType("ICEBERG_TABLE", 2, IcebergTable))
ICEBERG_VIEW = CONTENT_TYPES.register(ContentType("ICEBERG_VIEW", 3, IcebergView))
DELTA_TABLE = CONTENT_TYPES.register(ContentType("DELTA_TABLE", 4, DeltaTable))
UDF = CONTENT_TYPES.register(ContentType("UDF", 5, Udf))


@functools.cache
def all_content_types() -> ContentTypes:
    """The built-in types and those of installed plug-ins."""
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        CONTENT_TYPES.register(entry_point.load())
    return CONTENT_TYPES


# ── struct ⇄ value ──────────────────────────────────────────────────────────────────────────────────────────


class TypedValue(msgspec.Struct, frozen=True, gc=False):
    """A content as it is stored: a checked, plain value."""

    type: str
    tag: int
    value: Value


def to_value(content: AnyContent, field: str = "content") -> TypedValue:
    """Checked as strictly as what comes in as JSON: structs do not check what they are made of."""
    if isinstance(content, OtherContent):
        return typed_value(content.type, content.value, field)
    known = all_content_types().of_struct(type(content))
    if known is None:
        raise InvalidInput(
            f"{type(content).__name__} is not a content type.",
            field=field,
            remedy=f"Use one of {', '.join(all_content_types().names())}, or OtherContent.",
        )
    value: Value = msgspec.to_builtins(content)
    return TypedValue(known.name, known.tag, _checked(known, value, field))


def check_type_name(type_name: str, field: str) -> str:
    """One that could be registered, whether or not it is."""
    if not isinstance(type_name, str) or not _TYPE_NAME.fullmatch(type_name):
        raise InvalidInput(
            f"{type_name!r} is not a content type.", field=field, remedy="Use e.g. ICEBERG_TABLE, NAMESPACE, ICEBERG_VIEW."
        )
    return type_name


def typed_value(type_name: str, value: Value, field: str = "content") -> TypedValue:
    """A type name and a JSON object, checked."""
    check_type_name(type_name, field)
    known = all_content_types().find(type_name)
    if known is None:
        return TypedValue(type_name, OTHER_TAG, check_value(value, field))
    return TypedValue(known.name, known.tag, _checked(known, value, field))


def from_value(type_name: str, value: Value) -> AnyContent:
    """What was stored, as its struct. Fields that a later version wrote are left out here, and stay in the value."""
    known = all_content_types().find(type_name)
    if known is None:
        return OtherContent(type_name, value)
    return msgspec.convert(value, known.struct)


def _checked(known: ContentType, value: Any, field: str) -> Value:
    if known.tag in PLUGIN_TAGS or not isinstance(value, dict):
        check_value(value, field)
    unknown = [] if value.keys() <= known.field_set else [name for name in value if name not in known.field_set]
    if unknown:
        raise InvalidInput(
            f"{known.name} has no field {unknown[0]!r}.", field=field, remedy=f"Its fields are {', '.join(known.fields)}."
        )
    try:
        typed = msgspec.convert(value, known.struct)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"{error}.", field=_field_of(field, str(error)), remedy=f"{known.name} has {', '.join(known.fields)}."
        ) from None
    if isinstance(typed, Udf) and typed.metadata_location is None and typed.sql_text is None:
        raise InvalidInput("a UDF needs its metadata or its text.", field=field, remedy="Set metadata_location.")
    plain: Value = msgspec.to_builtins(typed)
    return check_size(plain, field)


def _field_of(field: str, error: str) -> str:
    """msgspec writes the path as `$.name` at the end of its message."""
    place = re.search(r"`\$(\S*)`$", error)
    return field + (place.group(1) if place else "")
