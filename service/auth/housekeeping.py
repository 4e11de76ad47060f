"""Periodic work for identities and rights: writes denials, and forgets old secrets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.producer.access.principals import Principals
from headwater.schemas.errors import HeadwaterError
from headwater.service.auth.access import Access
from headwater.service.operations.realm_feeds import RealmFeeds

FORGET_EVERY_SECONDS = 3_600.0

_log = logging.getLogger(__name__)


class AccessHousekeeping:
    """Called periodically, on a thread, by the worker's housekeeping."""

    def __init__(self, access: Access, feeds: RealmFeeds, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._feeds = feeds
        self._monotonic = monotonic
        self._forgot_at = monotonic()

    def run(self) -> None:
        self._access.denials.flush()
        if self._monotonic() - self._forgot_at < FORGET_EVERY_SECONDS:
            return
        self._forgot_at = self._monotonic()
        for feed in self._feeds.all_known():
            try:
                Principals(feed.kernel).forget_unreferenced()
            except HeadwaterError:  # the next time will do
                _log.warning("secrets that no record names could not be looked for", extra={"realm": feed.name})


class AccessCollector(Collector):
    """Numbers alone: no name of a principal, client or realm."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def collect(self) -> Iterator[Metric]:
        access = self._access
        failures = 0 if access.tokens is None else access.tokens.failures
        yield CounterMetricFamily("headwater_denials", "Requests denied for lack of a right.", value=access.denials.counted)
        yield CounterMetricFamily("headwater_token_failures", "Wrong client ids and secrets.", value=failures)
        yield CounterMetricFamily(
            "headwater_rate_limited", "Requests over their principal's rate.", value=access.limits.refused
        )
