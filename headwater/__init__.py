"""Headwater: the change feed that begins at your catalog's HEAD. The names below are public; everything else is private.

Read engine, handles, embedded, commit_options, snapshot, local_logs (`headwater.open`); then client/ (`headwater.connect`),
manage and local_manage; then settings, wiring/ and cli/; then up/, dev/ and demo/. The layers schemas/, persistence/,
producer/, consumers/, streaming/ and service/ are links to the folders of the same name at the top.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.client.remote import connect
    from headwater.embedded import Headwater
    from headwater.embedded import open_embedded as open
    from headwater.engine import Catalog, Reference
    from headwater.persistence.observability.metrics import Metrics
    from headwater.persistence.observability.spans import Spans
    from headwater.producer.commits.operations import Delete, Put, Rename, Unchanged
    from headwater.producer.content.content_types import DeltaTable, IcebergTable, IcebergView, Namespace, OtherContent, Udf
    from headwater.producer.merging.apply_changes import MergeRules
    from headwater.producer.merging.three_way import Behavior, KeyRule
    from headwater.schemas.change import Base, Change, Kind, Op, Operation
    from headwater.schemas.errors import HeadwaterError
    from headwater.schemas.filters import Filter

__version__ = "0.1.0"

_HOMES = {
    "Base": "headwater.schemas.change",
    "Behavior": "headwater.producer.merging.three_way",
    "Catalog": "headwater.engine",
    "Change": "headwater.schemas.change",
    "Delete": "headwater.producer.commits.operations",
    "DeltaTable": "headwater.producer.content.content_types",
    "Filter": "headwater.schemas.filters",
    "Headwater": "headwater.embedded",
    "HeadwaterError": "headwater.schemas.errors",
    "IcebergTable": "headwater.producer.content.content_types",
    "IcebergView": "headwater.producer.content.content_types",
    "KeyRule": "headwater.producer.merging.three_way",
    "Kind": "headwater.schemas.change",
    "MergeRules": "headwater.producer.merging.apply_changes",
    "Metrics": "headwater.persistence.observability.metrics",
    "Namespace": "headwater.producer.content.content_types",
    "Op": "headwater.schemas.change",
    "Operation": "headwater.schemas.change",
    "OtherContent": "headwater.producer.content.content_types",
    "Put": "headwater.producer.commits.operations",
    "Reference": "headwater.engine",
    "Rename": "headwater.producer.commits.operations",
    "Spans": "headwater.persistence.observability.spans",
    "Udf": "headwater.producer.content.content_types",
    "Unchanged": "headwater.producer.commits.operations",
    "connect": "headwater.client.remote",
    "open": "headwater.embedded:open_embedded",
}
"""Public name → where it lives: loaded at first use, so that a worker that needs one layer does not import them all."""

__all__ = [
    "Base",
    "Behavior",
    "Catalog",
    "Change",
    "Delete",
    "DeltaTable",
    "Filter",
    "Headwater",
    "HeadwaterError",
    "IcebergTable",
    "IcebergView",
    "KeyRule",
    "Kind",
    "MergeRules",
    "Metrics",
    "Namespace",
    "Op",
    "Operation",
    "OtherContent",
    "Put",
    "Reference",
    "Rename",
    "Spans",
    "Udf",
    "Unchanged",
    "connect",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    from headwater.schemas.extras import needs_extra

    with needs_extra(f"headwater.{name}"):
        found: object = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = found  # looked up once: programs write `headwater.Put` in their innermost loops
    return found
