"""The tables of all doors enter; every route leaves as a request that could be sent: method, path, body. Nothing is left out:
a route whose path or body is not known here fails the tests that walk it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.service.http.routes import FEED_ROUTES
from headwater.service.iceberg.rights import PUBLIC
from headwater.service.iceberg.routes import ROUTES as ICEBERG_ROUTES
from headwater.service.manage.route import Over
from headwater.service.manage.routes import MANAGE_ROUTES
from headwater.service.nessie.routes import ROUTES as NESSIE_ROUTES

HIDDEN = "hidden"
"""Begins every name that only those who may see it must ever read."""
THERE = {
    "realm": "alpha",
    "catalog": "lake",
    "prefix": "lake",
    "namespace": "hidden_db",
    "table": "hidden_table",
    "view": "hidden_view",
    "name": "hidden_reader",
    "principal": "hidden_principal",
    "member": "hidden_principal",
    "role": "hidden_role",
    "policy": "hidden_policy",
    "right": "catalog.read",
    "type": "branch",
    "reference": "hidden_branch",
    "ref": "hidden_branch",
    "from": "main",
    "to": "hidden_branch",
    "key": "hidden_db.hidden_table",
    "function": "f",
    "plan-id": "p",
}
"""What stands for the names in paths: what is there, as `seeded` makes it."""
_PATH_NAME = re.compile(r"\{([\w-]+)\}")


class Asked(NamedTuple):
    door: str
    method: str
    path: str
    """With names filled in."""
    route: str
    """As its table has it."""
    body: Any = None
    query: str = ""
    realm_in_path: bool = False
    shows_what_may_be_seen: bool = False
    """A list that merely leaves out what the caller may not see."""

    def __str__(self) -> str:
        return f"{self.method} {self.route}"

    @property
    def url(self) -> str:
        return self.path + (f"?{self.query}" if self.query else "")


def all_routes(names: Mapping[str, str]) -> list[Asked]:
    """Those that ask for a token; `id` and other names of the moment come with `names`."""
    filled = {**THERE, **names}
    return [*_feed(filled), *_iceberg(filled), *_nessie(filled), *_manage(filled)]


def _feed(names: Mapping[str, str]) -> list[Asked]:
    query = {
        "changes": "pointer=cat/1/heads/main",
        "stream": "pointer=cat/1/heads/main",
        "snapshot": "pointer=cat/1/heads/main",
    }
    found = []
    for route in FEED_ROUTES:
        last = route.path.split("/")[4]
        found.append(
            Asked(
                "feed",
                route.method,
                _filled(route.path, names),
                route.path,
                _FEED_BODIES.get((route.method, route.path.partition("{realm}")[2])),
                query.get(last, ""),
                realm_in_path=True,
                shows_what_may_be_seen=last == "pointers",
            )
        )
    return found


def _iceberg(names: Mapping[str, str]) -> list[Asked]:
    return [
        Asked(
            "iceberg",
            route.method,
            f"/iceberg{_filled(route.path, names)}",
            route.path,
            _iceberg_body(route.path, names) if route.method == "POST" else None,
            "warehouse=lake" if route.path == "/v1/config" else "",
        )
        for route in ICEBERG_ROUTES
        if route.handler is not None and (route.method, route.path) not in PUBLIC
    ]


def _nessie(names: Mapping[str, str]) -> list[Asked]:
    return [
        Asked(
            "nessie",
            route.method,
            f"/api/v2{_filled(route.path, names)}",
            route.path,
            _nessie_body(route.path),
            _keys(route.path),
        )
        for route in NESSIE_ROUTES
    ]


def _manage(names: Mapping[str, str]) -> list[Asked]:
    found = []
    for route in MANAGE_ROUTES:
        body = None if route.body is None else _MANAGE_BODIES[route.body.__name__]
        found.append(
            Asked(
                "manage",
                route.method,
                _filled(route.path, names),
                route.path,
                body,
                "catalog=lake" if "catalog" in {one.name for one in route.parameters} else "",
                realm_in_path=True,
                shows_what_may_be_seen=route.over is Over.ANY_CATALOG,
            )
        )
    return found


def _filled(path: str, names: Mapping[str, str]) -> str:
    return _PATH_NAME.sub(lambda match: names[match.group(1)], path)


_PUT = {"op": "put", "key": ["hidden_db", "n"], "type": "NAMESPACE", "content": {"properties": {}}}
_FEED_BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/commit"): {"catalog": "lake", "operations": [_PUT], "message": "m"},
    ("PUT", "/subscriptions/{name}"): {"pointers": ["cat/1/heads/main"], "after": "earliest"},
    ("POST", "/subscriptions/{name}/acknowledge"): {"version": "1-1", "positions": {"cat/1/heads/main": {"seq": 1}}},
    ("POST", "/subscriptions/{name}/rewind"): {"version": "1-1", "after": "earliest"},
}
_MANAGE_BODIES: dict[str, Any] = {
    "RealmBody": {"name": "gamma"},
    "CatalogBody": {"name": "other"},
    "CatalogChange": {"properties": {"a": "b"}},
    "NamespaceBody": {"path": ["hidden_db", "new"]},
    "ReferenceBody": {"name": "new", "type": "branch"},
    "ReferenceTarget": {"target": "main"},
    "PrincipalBody": {"name": "new"},
    "PropertiesBody": {"properties": {"a": "b"}},
    "RotationBody": {"overlap_seconds": 1},
    "RoleBody": {"name": "new"},
    "PolicyBody": {"name": "new", "type": "system.compaction", "content": {}},
    "PolicyChange": {"content": {"a": 1}},
    "MappingBody": {"parameters": {}},
}
_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}]}
_VIEW_VERSION = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    "default-namespace": ["hidden_db"],
}


def _iceberg_body(path: str, names: Mapping[str, str]) -> Any:
    table = {"namespace": [names["namespace"]], "name": names["table"]}
    last = path.rpartition("/")[2]
    return {
        "namespaces": {"namespace": [names["namespace"], "new"]},
        "properties": {"updates": {"a": "b"}},
        "tables": {"name": "new", "schema": _SCHEMA},
        "register": {"name": "new", "metadata-location": "file:///m.json"},
        "register-view": {"name": "new", "metadata-location": "file:///m.json"},
        "rename": {"source": table, "destination": {**table, "name": "new"}},
        "commit": {"table-changes": [{"identifier": table, "requirements": [], "updates": []}]},
        "views": {"name": "new", "schema": {**_SCHEMA, "schema-id": 0}, "view-version": _VIEW_VERSION, "properties": {}},
        "metrics": {"report-type": "scan-report"},
        "events": {},
    }.get(last, {"requirements": [], "updates": []})


def _nessie_body(path: str) -> Any:
    put = {
        "type": "PUT",
        "key": {"elements": ["hidden_db", "n"]},
        "content": {"type": "NAMESPACE", "elements": ["hidden_db", "n"]},
    }
    main = {"type": "BRANCH", "name": "main"}
    merge = {"fromRefName": "hidden_branch", "fromHash": "0" * 64, "hashesToTransplant": ["0" * 64], "message": "m"}
    return {
        "/config/repository": {"config": {"type": "GARBAGE_COLLECTOR"}},
        "/trees": main,
        "/trees/{ref}": main,
        "/trees/{ref}/contents": {"requestedKeys": [{"elements": ["hidden_db", "hidden_table"]}]},
        "/trees/{ref}/history/commit": {"commitMeta": {"message": "m"}, "operations": [put]},
        "/trees/{ref}/history/merge": merge,
        "/trees/{ref}/history/transplant": merge,
    }.get(path)


def _keys(path: str) -> str:
    return {"/trees": "name=new&type=BRANCH", "/trees/{ref}/contents": "key=hidden_db.hidden_table"}.get(path, "")
