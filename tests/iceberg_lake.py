"""A branch of a served lake enters; PyIceberg's catalog and plain requests on it leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


class IcebergLake(NamedTuple):
    warehouse: str
    url: str
    http: httpx.Client
    """Paths are relative to the prefix."""
    opened: list[RestCatalog]

    def catalog(self) -> RestCatalog:
        self.opened.append(RestCatalog("lake", uri=self.url, warehouse=self.warehouse))
        return self.opened[-1]

    def refused(self, method: str, path: str, status: int, type: str, **request: Any) -> str:
        """Checks the shape of the refusal; its message."""
        answer = self.http.request(method, path, **request)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == (type, status), error
        message: str = error["message"]
        assert message
        return message

    def events(self, **query: Any) -> dict[str, Any]:
        answer = self.http.post("events", json={name.replace("_", "-"): value for name, value in query.items()})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@contextmanager
def iceberg_lake(server_url: str, warehouse: str) -> Iterator[IcebergLake]:
    url = f"{server_url}/iceberg"
    config = httpx.get(f"{url}/v1/config", params={"warehouse": warehouse})
    assert config.status_code == 200, config.text
    prefix = config.json()["overrides"]["prefix"]
    with httpx.Client(base_url=f"{url}/v1/{prefix}/", timeout=30) as http:
        lake = IcebergLake(warehouse, url, http, [])
        try:
            yield lake
        finally:
            for catalog in lake.opened:
                catalog.close()


def table_body(name: str, **fields: Any) -> dict[str, Any]:
    """The smallest CreateTableRequest."""
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    return {"name": name, "schema": schema, **fields}


def view_body(name: str, sql: str = "select 1", **fields: Any) -> dict[str, Any]:
    body = table_body(name, **fields)
    return {**body, "view-version": view_version(1, 0, sql)}


def view_version(id: int, schema_id: int, sql: str) -> dict[str, Any]:
    return {
        "version-id": id,
        "schema-id": schema_id,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {"engine-name": "test"},
        "default-namespace": ["db"],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }
