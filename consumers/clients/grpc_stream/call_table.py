"""Which RPC answers which request: by method and the parts of the path after the realm."""

from __future__ import annotations

from collections.abc import Callable

from headwater.consumers.clients.grpc_stream import (
    commit_calls,
    feed_calls,
    record_calls,
    reference_calls,
    subscription_calls,
)
from headwater.consumers.clients.grpc_stream.exchange import Exchange, HttpQuestion, not_over_grpc

ANY = "*"
_CATALOG = f"manage/catalogs/{ANY}"
_REFERENCE = f"{_CATALOG}/references/{ANY}/{ANY}"
_SUBSCRIPTION = f"feed/subscriptions/{ANY}"
_REALM = f"manage/realms/{ANY}"

CALLS: dict[str, Callable[[HttpQuestion], Exchange]] = {
    "GET feed/pointers": feed_calls.pointers,
    "GET feed/changes": feed_calls.changes,
    f"GET feed/commits/{ANY}": feed_calls.commit,
    "GET feed/snapshot": feed_calls.snapshot,
    "GET feed/reference-log": feed_calls.reference_log,
    "POST feed/commit": commit_calls.commit,
    f"PUT {_SUBSCRIPTION}": subscription_calls.create,
    f"GET {_SUBSCRIPTION}": subscription_calls.get,
    f"DELETE {_SUBSCRIPTION}": subscription_calls.delete,
    f"GET {_SUBSCRIPTION}/changes": subscription_calls.read,
    f"POST {_SUBSCRIPTION}/acknowledge": subscription_calls.acknowledge,
    f"POST {_SUBSCRIPTION}/rewind": subscription_calls.rewind,
    "POST manage/oauth/tokens": record_calls.token,
    "GET manage/catalogs": record_calls.catalogs,
    "POST manage/catalogs": record_calls.create_catalog,
    f"GET {_CATALOG}": record_calls.catalog,
    f"PATCH {_CATALOG}": record_calls.update_catalog,
    f"DELETE {_CATALOG}": record_calls.delete_catalog,
    f"GET {_CATALOG}/references": reference_calls.references,
    f"POST {_CATALOG}/references": reference_calls.create,
    f"GET {_REFERENCE}": reference_calls.reference,
    f"PUT {_REFERENCE}": reference_calls.assign,
    f"DELETE {_REFERENCE}": reference_calls.delete,
    f"POST {_CATALOG}/merge": commit_calls.merge,
    f"POST {_CATALOG}/merge-preview": commit_calls.preview,
    f"POST {_CATALOG}/transplant": commit_calls.transplant,
    f"GET {_CATALOG}/diff": reference_calls.diff,
    "GET manage/realms": record_calls.realms,
    "POST manage/realms": record_calls.create_realm,
    f"GET {_REALM}": record_calls.realm,
    f"PATCH {_REALM}": record_calls.update_realm,
    f"DELETE {_REALM}": record_calls.delete_realm,
    f"POST {_REALM}/{ANY}": record_calls.move_realm,
}


def exchange(question: HttpQuestion) -> Exchange:
    """`InvalidInput` for what has no RPC."""
    wanted = f"{question.method} {question.parts[0]}".split(" ") + list(question.parts[1:])
    for said, call in CALLS.items():
        method, _, path = said.partition(" ")
        if _fits([method, *path.split("/")], wanted):
            return call(question)
    raise not_over_grpc(question)


def _fits(pattern: list[str], wanted: list[str]) -> bool:
    return len(pattern) == len(wanted) and all(one in (ANY, part) for one, part in zip(pattern, wanted, strict=True))
