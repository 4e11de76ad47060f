"""Registers the Change's schema with a schema registry (Confluent's HTTP API)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from headwater.schemas.avro.avro_codec import CHANGE_SCHEMA
from headwater.schemas.errors import InvalidInput, KafkaUnavailable

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_SECONDS = 10.0


class SchemaRegistry:
    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"{url!r} is not a registry.", field="kafka_registry_url", remedy="Use http:// or https://.")
        self._url = url.rstrip("/")
        self._schemas: dict[int, dict[str, Any]] = {}

    def register(self, topic: str) -> int:
        """Under `<topic>-value`; the same id if it is there already. A schema that is not compatible is refused there."""
        answer = self._call(f"/subjects/{quote(topic, safe='')}-value/versions", {"schema": json.dumps(CHANGE_SCHEMA)})
        return int(answer["id"])

    def schema(self, id: int) -> dict[str, Any]:
        """What a writer used; ids never change their meaning."""
        if id not in self._schemas:
            self._schemas[id] = json.loads(self._call(f"/schemas/ids/{id}")["schema"])
        return self._schemas[id]

    def _call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": CONTENT_TYPE, "Accept": CONTENT_TYPE})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
                return found
        except (urllib.error.URLError, TimeoutError, ValueError) as error:
            raise KafkaUnavailable(f"the schema registry did not answer: {error}.", remedy="Look at the registry.") from error
