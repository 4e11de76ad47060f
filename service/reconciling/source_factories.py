"""The kinds of sources: those built in, and those of installed plug-ins."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import metadata

import msgspec

from headwater.consumers.webhooks.webhook_addresses import checked_url
from headwater.producer.connectors.log_bridge import CheckContent
from headwater.producer.connectors.source_spi import (
    ENTRY_POINT_GROUP,
    AnySource,
    ConnectorSpec,
    SourceContent,
    SourceFactories,
    SourceFactory,
)
from headwater.schemas.errors import DuplicateRegistration, FeedUnreachable, InvalidInput, LocationForbidden
from headwater.service.reconciling.source_secrets import check_secret_ref
from headwater.service.reconciling.sources import feed_source, iceberg_source, nessie_source
from headwater.service.reconciling.sources.delta_source import DeltaFactory
from headwater.service.reconciling.sources.hive_source import HiveFactory
from headwater.service.reconciling.sources.upstream import Upstream, bearer, is_allowed
from headwater.service.storage.locations import Warehouse
from headwater.service.storage.storage_roots import StorageRoots

_log = logging.getLogger(__name__)


class ReconcileOptions(msgspec.Struct, frozen=True, kw_only=True):
    secrets_dir: str = ""
    private_hosts: frozenset[str] = frozenset()
    """Hosts of sources that may be on a private network."""
    storage_roots: StorageRoots = StorageRoots()
    storage: dict[str, str] = {}
    """Options for reading sources that are files; the others come from the environment."""
    turn_seconds: float = 60.0
    """After how long a run leaves its slot to waiting ones and continues later."""
    slots: int = 2
    """Connectors that one process reconciles at a time; 0 leaves that to `headwater reconcile`."""
    job_days: int = 7
    lease_seconds: float = 30.0
    """After how long without a sign of life another process takes a connector over."""


class _HttpFactory:
    def __init__(
        self,
        options: ReconcileOptions,
        check_spec: Callable[[ConnectorSpec], None],
        source: Callable[[Upstream, ConnectorSpec, bytes], AnySource],
        *,
        has_log: bool,
    ) -> None:
        self.has_log = has_log
        self._options = options
        self._check_spec = check_spec
        self._source = source

    def check_spec(self, spec: ConnectorSpec) -> None:
        self._check_spec(spec)
        check_secret_ref(spec.secret_ref)
        for root in spec.roots:
            self._options.storage_roots.check(root)
        try:
            checked_url(spec.uri, allow_private=is_allowed(spec.uri, self._options.private_hosts))
        except FeedUnreachable:  # a name that has no address now may have one later: it is checked again with every call
            return

    def open(self, spec: ConnectorSpec, secret: bytes) -> AnySource:
        upstream = Upstream(spec.uri, private_hosts=self._options.private_hosts, headers=bearer(secret))
        try:
            return self._source(upstream, spec, secret)
        except BaseException:
            upstream.close()
            raise


def source_factories(options: ReconcileOptions) -> SourceFactories:
    found: dict[str, SourceFactory] = {
        "iceberg-rest": _HttpFactory(options, iceberg_source.check_spec, iceberg_source.IcebergSource, has_log=False),
        "nessie": _HttpFactory(options, nessie_source.check_spec, nessie_source.NessieSource, has_log=True),
        "headwater": _HttpFactory(options, feed_source.check_spec, feed_source.FeedSource, has_log=True),
        "delta": DeltaFactory(options.storage, options.storage_roots),
        "hive": HiveFactory(options.private_hosts, options.storage_roots),
    }
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        if entry_point.name in found:
            raise DuplicateRegistration(
                f"two sources are called {entry_point.name!r}.", field="source", remedy="Uninstall one of the plug-ins."
            )
        try:
            found[entry_point.name] = entry_point.load()
        except Exception as error:
            _log.exception("plug-in %s cannot be loaded", entry_point.value)
            found[entry_point.name] = _BrokenFactory(entry_point.name, error)
    return found


class _BrokenFactory:
    """⚠ Of a plug-in that cannot be loaded: it costs its own connectors alone, not the server."""

    def __init__(self, name: str, error: Exception) -> None:
        self._text = f"the plug-in {name!r} cannot be loaded: {type(error).__name__}: {error}"

    def check_spec(self, spec: ConnectorSpec) -> None:
        raise InvalidInput(self._text, field="source", remedy="Mend or upgrade the plug-in.")

    def open(self, spec: ConnectorSpec, secret: bytes) -> AnySource:
        raise InvalidInput(self._text, field="source", remedy="Mend or upgrade the plug-in.")


def content_check(spec: ConnectorSpec) -> CheckContent:
    """⚠ This server reads an observed table's files with its own rights: they must lie below the roots that the spec declares
    and that the operator allows."""
    roots = [Warehouse(root) for root in spec.roots]

    def check(content: SourceContent) -> None:
        for location in _locations(content):
            if not any(_is_below(root, location) for root in roots):
                raise LocationForbidden(
                    f"{location[:200]!r} is below none of the connector's roots.",
                    field="roots",
                    remedy="Declare its root, if the source may name files there.",
                )

    return check


def _locations(content: SourceContent) -> list[str]:
    found: list[str] = []
    for name, field in content.value.items():
        if "location" in name.lower():
            found += [str(one) for one in (field if isinstance(field, list) else [field]) if one is not None]
    return found


def _is_below(root: Warehouse, location: str) -> bool:
    try:
        root.check(location)
    except LocationForbidden:
        return False
    return True
