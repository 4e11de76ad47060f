"""Sends prepared CQL: retried where that is safe, and fanned out within bounds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cassandra.cluster import Cluster, ResponseFuture, Session
from cassandra.query import BoundStatement, PreparedStatement

from headwater.persistence.backends.cassandra.cassandra_errors import RequestKind, fault_of
from headwater.persistence.backends.cassandra.cluster import PLAIN, SERIAL, connect
from headwater.persistence.backends.cassandra.url import CassandraOptions
from headwater.persistence.clock import MICROS, Clock
from headwater.schemas.errors import HeadwaterError

Row = tuple[Any, ...]

PAGE_ROWS = 1_000
IN_FLIGHT_MAX = 64
"""Requests of one call that wait for an answer at once."""
RETRY_DELAYS_SECONDS = (0.05, 0.2, 0.5, 1.0)
GIVE_UP_SECONDS = 10.0
"""An attempt that begins later than this is the last, however many are left."""


class Call(NamedTuple):
    statement: Any
    """A bound statement or a batch within one partition."""
    kind: RequestKind
    profile: Any = PLAIN
    host: Any = None
    """The only node to ask, where each answers for itself."""


class Page(NamedTuple):
    rows: list[Row]
    next: bytes | None
    """Where the next page begins; None at the end."""


class Calls:
    """One connected session. `{ks}` in CQL stands for the keyspace."""

    def __init__(self, options: CassandraOptions, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.cluster: Cluster
        self.session: Session
        self.cluster, self.session = connect(options)
        self._prepared: dict[str, PreparedStatement] = {}
        self._preparing = threading.Lock()

    def close(self) -> None:
        self.cluster.shutdown()

    def bind(self, cql: str, values: Sequence[Any]) -> BoundStatement:
        return self._prepare(cql).bind(values)

    def read(self, cql: str, values: Sequence[Any], *, serially: bool = False, page_rows: int = PAGE_ROWS) -> Call:
        bound = self.bind(cql, values)
        bound.fetch_size = page_rows
        return Call(bound, RequestKind.READ, SERIAL if serially else PLAIN)

    def write(self, cql: str, values: Sequence[Any]) -> Call:
        """Write or delete an immutable row."""
        return Call(self.bind(cql, values), RequestKind.IDEMPOTENT_WRITE)

    def lwt(self, cql: str, values: Sequence[Any]) -> bool:
        """Send a conditional write; whether it was applied."""
        page = self.run(Call(self.bind(cql, values), RequestKind.LWT))
        return bool(page.rows[0][0])

    def first_row(self, read: Call) -> Row | None:
        page = self.run(read)
        return page.rows[0] if page.rows else None

    def run(self, call: Call, from_page: bytes | None = None) -> Page:
        for may_retry in self._attempts():
            answer = self._receive(call, self._send(call, from_page))
            if isinstance(answer, Page):
                return answer
            if not (answer.retriable and may_retry):
                raise answer
        raise AssertionError("the last attempt answers or raises")

    def run_all(self, calls: Sequence[Call]) -> list[Page]:
        """The first page of each call, in the order of the calls; those that failed are sent again together."""
        pages: dict[int, Page] = {}
        waiting = list(range(len(calls)))
        for may_retry in self._attempts():
            faults = self._run_round(calls, waiting, pages)
            fatal = [fault for fault in faults.values() if not (fault.retriable and may_retry)]
            if fatal:
                raise fatal[0]
            if not faults:
                return [pages[index] for index in range(len(calls))]
            waiting = list(faults)
        raise AssertionError("the last attempt answers or raises")

    def _run_round(self, calls: Sequence[Call], waiting: Sequence[int], pages: dict[int, Page]) -> dict[int, HeadwaterError]:
        faults: dict[int, HeadwaterError] = {}
        in_flight: deque[tuple[int, ResponseFuture]] = deque()

        def settle_oldest() -> None:
            index, future = in_flight.popleft()
            answer = self._receive(calls[index], future)
            if isinstance(answer, Page):
                pages[index] = answer
            else:
                faults[index] = answer

        for index in waiting:
            if len(in_flight) >= IN_FLIGHT_MAX:
                settle_oldest()
            in_flight.append((index, self._send(calls[index])))
        while in_flight:
            settle_oldest()
        return faults

    def pages(self, call: Call) -> Iterator[Page]:
        """Page after page; each is retried by itself, so that a long scan outlives a short outage."""
        return self.pages_after(call, self.run(call))

    def pages_after(self, call: Call, page: Page) -> Iterator[Page]:
        """That first page and all that follow it."""
        yield page
        while page.next is not None:
            page = self.run(call, page.next)
            yield page

    def _prepare(self, cql: str) -> PreparedStatement:
        prepared = self._prepared.get(cql)
        if prepared is not None:
            return prepared
        with self._preparing:
            for may_retry in self._attempts():
                try:
                    self._prepared[cql] = self.session.prepare(cql.format(ks=f'"{self.options.keyspace}"'))
                    return self._prepared[cql]
                except Exception as error:
                    fault = fault_of(error, RequestKind.READ, self.options.where)
                    if fault is None:
                        raise
                    if not (fault.retriable and may_retry):
                        raise fault from error
        raise AssertionError("the last attempt answers or raises")

    def _send(self, call: Call, from_page: bytes | None = None) -> ResponseFuture:
        return self.session.execute_async(
            call.statement, execution_profile=call.profile, paging_state=from_page, host=call.host
        )

    def _receive(self, call: Call, future: ResponseFuture) -> Page | HeadwaterError:
        try:
            result = future.result()
        except Exception as error:
            fault = fault_of(error, call.kind, self.options.where, attempted=bool(future.attempted_hosts))
            if fault is None:
                raise
            fault.__cause__ = error
            return fault
        return Page(result.current_rows, result.paging_state)

    def _attempts(self) -> Iterator[bool]:
        """Yields before each attempt whether another may follow, and waits in between."""
        give_up_at = self.clock.now_micros() + int(GIVE_UP_SECONDS * MICROS)
        for delay in RETRY_DELAYS_SECONDS:
            yield self.clock.now_micros() < give_up_at
            self.clock.sleep(delay)
        yield False
