"""A request under `/api`, its parts checked: catalog, reference, keys, parameters, body."""

from __future__ import annotations

import asyncio
from functools import cached_property

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, ReferenceNotFound
from headwater.service.gate.request import Request
from headwater.service.http.parameters import given_parameters
from headwater.service.http.responses import Response
from headwater.service.nessie.key_paths import parse_key_path
from headwater.service.nessie.operations.catalog_view import CatalogView
from headwater.service.nessie.operations.commits import Wanted
from headwater.service.nessie.operations.filters import CelFilter, compiled
from headwater.service.nessie.operations.key_ranges import KeyRange
from headwater.service.nessie.reference_paths import ReferencePath, parse_reference_path

PREFIX = "/api/v2"


class Key(msgspec.Struct, frozen=True, gc=False):
    """ContentKey."""

    elements: list[str]

    @property
    def path(self) -> KeyPath:
        return tuple(self.elements)


class NessieCall(Request):
    view: CatalogView
    """View of the catalog, once it was looked up."""
    wanted: list[Wanted] | None = None
    """The rights that a commit's operations need."""
    refuses_unknown_parameters = False

    @property
    def catalog_name(self) -> str:
        return self.names.get("catalog") or self.service.config.nessie_catalog

    @property
    def key_route(self) -> str:
        return self.route_path.removeprefix(PREFIX)

    @property
    def principal(self) -> str:
        return self.caller.name

    @property
    def request_id(self) -> RequestKey | None:
        return None if self.run is None else self.run.request

    async def handle(self) -> Response | None:
        """A catalog is remembered while the list of catalogs stays the same. One that is remembered wrongly costs one more
        look, no wrong answer: what is not found there is looked for in the one that has the name now."""
        known = self.feed.known_catalog(self.catalog_name)
        there = known if known is not None else await asyncio.to_thread(self.feed.read_catalog, self.catalog_name)
        self.view = CatalogView(self.kernel, there)
        try:
            return await super().handle()
        except ReferenceNotFound:
            there = await asyncio.to_thread(self.feed.read_catalog, self.catalog_name)
            if known is None or there.id == known.id:
                raise
        self.view = CatalogView(self.kernel, there)
        return await super().handle()

    @property
    def reference(self) -> ReferencePath:
        return parse_reference_path(self.names["ref"])

    @property
    def key(self) -> KeyPath:
        return parse_key_path(self.names["key"])

    @cached_property
    def query(self) -> dict[str, list[str]]:
        """Parameters that the specification does not know are ignored, as its clients expect."""
        return given_parameters(self.scope["query_string"])

    def text(self, name: str) -> str | None:
        """None where it is missing or empty."""
        return next((value for value in self.query.get(name, []) if value), None)

    def required(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise InvalidInput("it is missing.", field=name, remedy="Add it to the query.")
        return value

    def number(self, name: str) -> int | None:
        """Not negative; 0 means what is missing means."""
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal() and len(value) < 11):
            raise InvalidInput(f"{value[:40]!r} is not a number of records.", field=name, remedy="Use 1, 2, 3 …")
        return int(value) or None

    def flag(self, name: str) -> bool:
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise InvalidInput(f"{value[:40]!r} is neither true nor false.", field=name, remedy="Use true or false.")
        return value == "true"

    @property
    def fetches_all(self) -> bool:
        value = (self.text("fetch") or "MINIMAL").upper()
        if value not in ("MINIMAL", "ALL"):
            raise InvalidInput(f"{value[:40]!r} is neither MINIMAL nor ALL.", field="fetch", remedy="Use one of them.")
        return value == "ALL"

    @property
    def reference_type(self) -> ReferenceType | None:
        value = self.text("type")
        if value is None:
            return None
        try:
            return ReferenceType(value.upper())
        except ValueError:
            message = f"Reference type name must be either 'branch' or 'tag', not {value[:40]!r}."
            raise InvalidInput(message, field="type", remedy="Use one of them.") from None

    def filter(self, names: frozenset[str]) -> CelFilter | None:
        expression = self.text("filter")
        return None if expression is None else compiled(expression, names)

    @property
    def key_range(self) -> KeyRange:
        return KeyRange(
            smallest=self._key("min-key"),
            largest=self._key("max-key"),
            prefix=self._key("prefix-key"),
            keys=frozenset(parse_key_path(text) for text in self.query.get("key", []) if text),
        )

    def _key(self, name: str) -> KeyPath | None:
        text = self.text(name)
        return None if text is None else parse_key_path(text, name)
