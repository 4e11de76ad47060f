"""Feed commits to one branch by two workers of a server, and by two servers, beside one worker in the same run.

The turns of the three alternate and the best of each counts, because other programs on the machine only ever take away. CPU of
the servers' processes stands beside the rate: the ratio of rates needs free cores, the CPU does not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import headwater
from bench.context import Context
from bench.feed import post
from bench.http_load import CLIENTS, Counts, cpu_seconds, plain_clients, run_clients
from bench.measures import Measure
from bench.stores import fresh_store_url
from tests.support.servers.feed_server import FeedServer, feed_server

TITLE = f"Feed commits to one branch, {CLIENTS} clients: one worker, two workers, two servers"
KINDS = ("sqlite", "postgresql")
ROUNDS = 5


class Turn(NamedTuple):
    rates: list[float]
    """By server."""
    cpu_micros: float
    """Of all workers, for each request."""

    @property
    def rate(self) -> float:
        return sum(self.rates)


def run(context: Context) -> Iterator[Measure]:
    for kind in [kind for kind in KINDS if kind in context.kinds]:
        with ExitStack() as stack:
            url = stack.enter_context(fresh_store_url(kind, context.console))
            with headwater.open(url, create=True) as engine:
                engine.ensure_realm("default").ensure_catalog("lake")
            one = stack.enter_context(feed_server(url))
            two = stack.enter_context(feed_server(url, "--workers", "2"))
            others = [stack.enter_context(feed_server(url)) for _ in range(2)]
            subjects = {"one worker": [one], "two workers": [two], "two servers": others}
            turns: dict[str, list[Turn]] = {name: [] for name in subjects}
            for _ in range(ROUNDS):
                for name, servers in subjects.items():
                    turns[name].append(_turn(servers, max(2.0, context.seconds)))
            yield from _compared(kind, turns)


def _compared(kind: str, turns: dict[str, list[Turn]]) -> Iterator[Measure]:
    best = {name: max(found, key=lambda turn: turn.rate) for name, found in turns.items()}
    for name, turn in best.items():
        yield Measure("workers", kind, name, turn.rate, "commits/s")
        yield Measure("workers", kind, name, turn.rate / best["one worker"].rate, "× one worker")
        yield Measure("workers", kind, name, min(one.cpu_micros for one in turns[name]), "µs of CPU each")
    shares = best["two servers"].rates
    yield Measure("workers", kind, "two servers", min(shares) / max(shares), "smaller share ÷ larger")


def _turn(servers: list[FeedServer], seconds: float) -> Turn:
    """Each server has its own clients, all at the same time."""
    counts: dict[int, Counts] = {}

    def drive(server: FeedServer) -> None:
        counts[server.port] = run_clients(server.port, plain_clients(post), seconds)

    before = sum(cpu_seconds(server) for server in servers)
    drivers = [threading.Thread(target=drive, args=(server,)) for server in servers]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    used = sum(cpu_seconds(server) for server in servers) - before
    sent = sum(count.sent for count in counts.values())
    return Turn([sum(counts[server.port].done) / seconds for server in servers], 1e6 * used / sent)
