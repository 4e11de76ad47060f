"""Gauges of open streams, caches and subscriptions: who lags, by how much, and what is pinned."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.persistence.clock import MICROS
from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.persistence.records.subscriptions import Subscriptions
from headwater.schemas.cursor import Position
from headwater.schemas.errors import HeadwaterError
from headwater.service.feed.stream import OpenStreams
from headwater.service.operations.realm_feeds import RealmFeed, RealmFeeds

SUBSCRIPTIONS_SHOWN_MAX = 1_000


class FeedCollector(Collector):
    """Numbers of subscriptions are read at each scrape, in a thread; those of streams are in memory."""

    def __init__(self, feeds: RealmFeeds, streams: OpenStreams) -> None:
        self._feeds = feeds
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        yield from self._caches()
        yield from self._open_streams()
        yield from self._subscriptions()

    def _caches(self) -> Iterator[Metric]:
        encoded = self._feeds.encoded
        yield _gauge("headwater_entry_cache_bytes", "Memory that encoded entries take.", encoded.bytes_used)
        yield _counter("headwater_entries_encoded", "Entries that were encoded as JSON.", encoded.encoded)

    def _open_streams(self) -> Iterator[Metric]:
        commits, seconds = 0, 0.0
        for stream in list(self._streams.open):
            for pointer, position in stream.positions.items():
                lag_commits, lag_seconds = self._lag(stream.feed, pointer, position)
                commits, seconds = max(commits, lag_commits), max(seconds, lag_seconds)
        yield _gauge("headwater_streams", "Streams that are open.", len(self._streams.open))
        yield _counter("headwater_streams_slow", "Streams ended because their reader fell behind.", self._streams.slow_ended)
        yield _gauge("headwater_stream_lag_commits", "Entries that the stream furthest behind was not sent.", commits)
        yield _gauge("headwater_stream_lag_seconds", "Age of the oldest entry that a stream was not sent.", seconds)

    def _subscriptions(self) -> Iterator[Metric]:
        labels = ["realm", "subscription", "pointer"]
        commits = GaugeMetricFamily("headwater_feed_lag_commits", "Entries that are not acknowledged.", labels=labels)
        seconds = GaugeMetricFamily("headwater_feed_lag_seconds", "Age of the oldest entry not acknowledged.", labels=labels)
        pins = GaugeMetricFamily("headwater_pin_seq", "The seq behind which history is kept.", labels=labels)
        left = GaugeMetricFamily("headwater_pin_seconds_left", "How long history is still kept.", labels=labels)
        now = self._feeds.store.clock.now_micros()
        for feed in self._feeds.all_known():
            try:
                found = Subscriptions(feed.kernel).list(limit=SUBSCRIPTIONS_SHOWN_MAX)
            except HeadwaterError:  # the store is away: other numbers matter all the more
                continue
            for one in found:
                for pointer, position in one.record.positions.items():
                    values = [feed.name, one.name, pointer]
                    lag_commits, lag_seconds = self._lag(feed, pointer, position)
                    commits.add_metric(values, lag_commits)
                    seconds.add_metric(values, lag_seconds)
                    if one.pinned_until > now:
                        pins.add_metric(values, position.seq)
                        left.add_metric(values, (one.pinned_until - now) / MICROS)
        yield from (commits, seconds, pins, left)

    def _lag(self, feed: RealmFeed, pointer: str, position: Position) -> tuple[int, float]:
        """In commits, and in seconds since the first entry that is not seen yet."""
        try:
            head = feed.watch.head(pointer)
            behind = head.seq - position.seq
            return (behind, self._age_seconds(feed, pointer, position, head)) if behind > 0 else (0, 0.0)
        except HeadwaterError:
            return 0, 0.0

    def _age_seconds(self, feed: RealmFeed, pointer: str, position: Position, head: LogHead) -> float:
        encoded = feed.encoded.get(f"{feed.kernel.realm}/{pointer}", position.seq + 1)
        time = encoded.time if encoded is not None else self._time(feed, pointer, position, head)
        return max(0, self._feeds.store.clock.now_micros() - time) / MICROS

    def _time(self, feed: RealmFeed, pointer: str, position: Position, head: LogHead) -> int:
        return PointerLog(feed.kernel, pointer).page(position.seq, 1, head).entries[0].entry.time


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=value)


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(name, help, value=value)
