"""Keyed requests around a handler: run once, waited for, answered again, let go of; in memory, with real threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.persistence.records.idempotency_rows import BODY_BYTES_MAX, IdempotencyRows, KeyedRequest
from headwater.persistence.store import RealmKernel, Store, open_store
from headwater.schemas.errors import (
    CatalogExists,
    HeadwaterError,
    IdempotencyKeyBusy,
    IdempotencyKeyReused,
    InvalidInput,
    StoreUnavailable,
)
from headwater.service.auth.caller import Caller
from headwater.service.http.responses import Response, json_response
from headwater.service.idempotency.expiry import Cleaning, CleaningOptions
from headwater.service.idempotency.request_key import (
    canonical_body,
    idempotency_key,
    keyed_request,
    request_id_of,
    scoped_request_id,
)
from headwater.service.idempotency.run_once import REPLAYED, IdempotencyOptions, IdempotentRun, once
from tests.support.faults.manual_clock import ManualClock

OPTIONS = IdempotencyOptions(wait_seconds=5)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://", create=True) as opened:
        yield opened


@pytest.fixture
def kernel(store: Store) -> RealmKernel:
    return store.kernel("r#1")


def request(key: str | None = "k", body: bytes = b"{}", path: str = "/manage/v1/r/catalogs") -> KeyedRequest | None:
    headers = [] if key is None else [(b"idempotency-key", key.encode("latin-1"))]
    scope = {"method": "POST", "path": path, "query_string": b"", "headers": headers}
    return keyed_request(scope, body, "ann", "/manage/v1/{realm}/catalogs")


def refused(error: HeadwaterError) -> Response:
    return json_response({"code": error.code}, error.http_status)


class Handler:
    def __init__(self, *outcomes: Response | HeadwaterError) -> None:
        self.outcomes = list(outcomes)
        self.request_ids: list[str | None] = []
        self.again: list[bool] = []

    def __call__(self, under: IdempotentRun | None) -> Response:
        self.request_ids.append(None if under is None else under.request.id)
        self.again.append(under is not None and under.again)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, HeadwaterError):
            raise outcome
        return outcome


def ask(
    kernel: RealmKernel,
    run: Callable[[IdempotentRun | None], Response],
    asked: KeyedRequest | None,
    options: IdempotencyOptions = OPTIONS,
) -> Response:
    async def on_a_thread(under: IdempotentRun | None) -> Response:
        return await asyncio.to_thread(run, under)

    return asyncio.run(once(IdempotencyRows(kernel), asked, on_a_thread, refused=refused, options=options))


def test_the_second_answer_is_the_first_and_is_marked_as_replayed(kernel: RealmKernel) -> None:
    run = Handler(json_response({"n": 1}, 201))
    first = ask(kernel, run, request(body=b'{"a": 1, "b": 2}'))
    again = ask(kernel, run, request(body=b'{"b":2,"a":1}'))
    assert (again.status, again.body) == (first.status, first.body) and again.headers[-1] == REPLAYED
    assert run.request_ids == ["ann:k"]


def test_without_a_key_every_request_runs(kernel: RealmKernel) -> None:
    run = Handler(json_response(1), json_response(2))
    assert [ask(kernel, run, request(None)).body for _ in range(2)] == [b"1", b"2"]


def test_the_same_key_with_another_body_or_path_is_refused(kernel: RealmKernel) -> None:
    run = Handler(json_response(1))
    ask(kernel, run, request())
    for other in (request(body=b'{"x":1}'), request(path="/manage/v1/r/catalogs2")):
        with pytest.raises(IdempotencyKeyReused):
            ask(kernel, run, other)


def test_a_permanent_refusal_is_stored_and_a_retriable_one_is_not(kernel: RealmKernel) -> None:
    run = Handler(CatalogExists("it is there."))
    with pytest.raises(CatalogExists):
        ask(kernel, run, request())
    assert ask(kernel, run, request()).status == 409
    later = Handler(StoreUnavailable("away."), json_response("done"))
    with pytest.raises(StoreUnavailable):
        ask(kernel, later, request("other"))
    assert ask(kernel, later, request("other")).body == b'"done"'
    assert later.request_ids == ["ann:other"] * 2, "both runs are one request to the log"
    assert later.again == [False, True]


def test_of_many_at_once_one_runs_and_all_get_its_answer(kernel: RealmKernel) -> None:
    started, runs = threading.Event(), []

    def run(under: IdempotentRun | None) -> Response:
        runs.append(under)
        started.set()
        threading.Event().wait(0.15)
        return json_response("one")

    def call(_: int) -> bytes:
        return ask(kernel, run, request()).body

    with ThreadPoolExecutor(6) as threads:
        bodies = list(threads.map(call, range(6)))
    assert started.is_set() and len(runs) == 1 and set(bodies) == {b'"one"'}


def test_a_caller_that_waits_too_long_is_asked_to_retry(kernel: RealmKernel) -> None:
    def inner(_: IdempotentRun | None) -> Response:
        with pytest.raises(IdempotencyKeyBusy) as busy:
            ask(kernel, Handler(), request(), IdempotencyOptions(wait_seconds=0))
        assert busy.value.retriable
        return json_response("late")

    assert ask(kernel, inner, request()).body == b'"late"'


def test_a_fault_of_the_handler_releases_the_key_at_once(kernel: RealmKernel) -> None:
    def faulty(_: IdempotentRun | None) -> Response:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(kernel, faulty, request())
    assert ask(kernel, Handler(json_response("done")), request(), IdempotencyOptions(wait_seconds=0)).body == b'"done"'


def test_a_dead_runner_is_replaced_and_a_large_answer_is_recreated_under_the_same_request_id(kernel: RealmKernel) -> None:
    asked = request()
    assert asked is not None
    IdempotencyRows(kernel).claim(asked, "ann:k", "the dead", running_seconds=0, kept_seconds=60)
    large = Response(200, [], b"x" * (BODY_BYTES_MAX + 1))
    run = Handler(large, large)
    assert ask(kernel, run, asked).body == ask(kernel, run, asked).body
    assert run.request_ids == ["ann:k", "ann:k"]


@pytest.mark.parametrize("key", ["", "with blank", "é", "x" * 201, "\x00"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput):
        request(key)


def test_a_body_that_is_not_json_is_compared_byte_by_byte() -> None:
    assert canonical_body(b'{"a":1}') == canonical_body(b' {"a" : 1}') != canonical_body(b'{"a":2}')
    assert canonical_body(b"{a") == b"{a" and canonical_body(b"[" * 100_000) == b"[" * 100_000


def test_a_request_id_fits_an_entry_with_the_longest_names() -> None:
    asked = KeyedRequest(principal="p" * 500, key="k" * 200, route="", fingerprint=b"")
    assert len(request_id_of(asked, development=False)) <= 256
    assert request_id_of(asked, development=True) == "k" * 200


def test_expired_keys_of_all_realms_go_in_slices(store: Store) -> None:
    from headwater.persistence.realms.realms import Realms
    from headwater.persistence.records.secret_hashes import ScryptCost

    realms = Realms(store, secret_cost=ScryptCost(n=2, r=1, p=1))
    for name in ("a", "b", "closed"):
        realms.create(name)
        realms.init(name)
    realms.deactivate("closed")
    kernels = [store.system, *(store.kernel(realms.get(name).instance) for name in ("a", "b"))]
    for kernel in kernels:
        for number in range(5):
            asked = KeyedRequest(principal="p", key=str(number), route="", fingerprint=b"")
            IdempotencyRows(kernel).claim(asked, "r", "o", running_seconds=0, kept_seconds=0 if number else 60)
    clock = ManualClock()
    options = CleaningOptions(page_rows=2, batch_rows_max=3, slice_seconds=10)
    cleaning = Cleaning(store, options, lambda: clock.now_micros() / 1e6)
    slices = [cleaning.slice()]
    while not slices[-1][1]:
        slices.append(cleaning.slice())
        assert len(slices) < 20
    assert cleaning.deleted == 12 and max(deleted for deleted, _ in slices) == 3
    assert cleaning.slice()[0] == 0, "and the next round starts over"


def test_a_repeated_key_is_refused_over_http_too() -> None:
    headers = [(b"idempotency-key", b"one"), (b"idempotency-key", b"other")]
    with pytest.raises(InvalidInput, match="more than once"):
        idempotency_key({"type": "http", "headers": headers})
    assert idempotency_key({"type": "http", "headers": headers[:1]}) == "one"


@pytest.mark.parametrize("separator", [":", "#A:", "%23A%3A"])
def test_no_name_and_key_make_the_request_id_of_another_caller(separator: str) -> None:
    """Names of external issuers may contain any character."""
    ann = Caller(name="ann", realm="r", instance="r#1", principal_id="A")
    other = Caller(name=f"ann{separator}x", realm="r", instance="r#1", issuer="https://issuer.example")
    key = f"x{other.owner_id[other.owner_id.rindex('#') :]}:1"
    assert scoped_request_id(other.owner_id, "1", development=False) == f"{other.owner_id}:1"
    assert scoped_request_id(ann.owner_id, key, development=False) != f"{other.owner_id}:1"
