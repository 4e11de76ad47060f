"""Every route of the table with what it may cost, and with what was kept for it: nobody gets either without the right."""

from __future__ import annotations

import asyncio
import gzip
import re
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.producer.access.grants import realm_grants
from headwater.producer.access.rights import Right
from headwater.service.gate.answers import SMALL_ANSWER_BYTES
from headwater.service.gate.bodies import SMALL_BODY_BYTES, BodyReader
from headwater.service.gate.budgets import BODIES_OF_CALLER, BODIES_OF_WORKER, Budgets
from headwater.service.gate.route import BODY, UPLOADS_OF_ADDRESS_MAX
from headwater.service.routes import route_table
from tests.support.fixtures.access_rig import META, Rig, access_rig
from tests.support.fixtures.access_routes import Asked, all_routes, ask, seed

BYTES_MAX = 1_000_000
PIECE = b" " * 50_000
GZIP = {"content-encoding": "gzip"}


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("gate"), request_bytes_max=BYTES_MAX) as made:
        seed(made)
        yield made


def _routes(rig: Rig) -> list[Asked]:
    newest = rig.get("/feed/v1/alpha/changes?pointer=cat/1/heads/main", rig.token("alpha")).json()["head"]["entry_id"]
    return all_routes({"id": newest})


class Sender:
    """A request whose body comes piece by piece, as long as it is read, and then stops short of its end."""

    def __init__(self, path: str, token: str | None, pieces: int, *, peer: str = "192.0.2.7", ends: bool = False) -> None:
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "client": (peer, 1),
        }
        self._pieces = pieces
        self._ends = ends
        self.read = 0
        self.sent: list[dict[str, Any]] = []
        self.waits = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.read < self._pieces:
            self.read += 1
            return {"type": "http.request", "body": PIECE, "more_body": not (self._ends and self.read == self._pieces)}
        self.waits.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


async def _until_read_or_answered(rig: Rig, senders: Sequence[Sender | Reader]) -> list[asyncio.Task[None]]:
    """Each has been answered, or its server waits for more."""
    tasks = [asyncio.ensure_future(rig.gate(one.scope, one.receive, one.send)) for one in senders]  # type: ignore[arg-type]
    for one, task in zip(senders, tasks, strict=True):
        waiting = asyncio.ensure_future(one.waits.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    return tasks


def _held(rig: Rig, senders: list[Sender]) -> int:
    """The bytes of bodies that are kept once all have sent what they will; then they hang up."""

    async def hold() -> int:
        tasks = await _until_read_or_answered(rig, senders)
        held = rig.gate.budgets.body_bytes
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return held

    found: int = rig.run(hold())
    assert rig.gate.budgets.body_bytes == 0 and rig.gate.budgets.requests == 0, "everything is given back"
    return found


# ── kept answers ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_kept_answer_needs_the_right_again(rig: Rig) -> None:
    """Of every route that keeps answers: asked under a key by who may do everything, and again when they may do nothing."""
    keeper = rig.principal("alpha", "keeper", over_realm=(Right.REALM_MANAGE,))
    keyed = [one for one in _routes(rig) if one.route.is_keyed and not (one.route.needs and one.route.needs.is_system)]
    keyed += [one for one in _routes(rig) if one.route.path.endswith("/commit") and one not in keyed]
    keyed.sort(key=lambda one: (one.method == "DELETE", -one.route.path.count("/")))  # what others need goes last
    first = [ask(rig, one, keeper, {"idempotency-key": f"key-{number}"}) for number, one in enumerate(keyed)]
    replayed = [ask(rig, one, keeper, {"idempotency-key": f"key-{number}"}) for number, one in enumerate(keyed)]
    assert sum("idempotency-replayed" in answer.headers for answer in replayed) > 40, "or nothing was kept"
    assert sum(answer.status_code < 300 for answer in first) > 25, "or hardly anything was done"
    realm_grants(rig.kernel("alpha")).revoke("keeper-role", Right.REALM_MANAGE, meta=META)
    for number, one in enumerate(keyed):
        answer = ask(rig, one, keeper, {"idempotency-key": f"key-{number}"})
        assert answer.status_code in (403, 404), f"{one}: {answer.status_code} {answer.text}"
        assert "idempotency-replayed" not in answer.headers, one


# ── budgets ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_large_is_read_from_a_caller_without_the_right(rig: Rig) -> None:
    nobody, tried = rig.token("alpha", "nobody"), 0
    for one in _routes(rig):
        if one.route.body is None or one.method != "POST":
            continue
        tried += 1
        sender = Sender(one.path, nobody, 12, ends=True)
        assert _held(rig, [sender]) == 0, one
        assert sender.status in (403, 404), f"{one}: {sender.sent}"
    assert tried > 25


def test_uploads_of_one_caller_fill_their_share_of_the_memory_and_no_more(rig: Rig) -> None:
    root, many = rig.token("alpha"), BODIES_OF_CALLER * 3
    senders = [Sender("/feed/v1/alpha/commit", root, BYTES_MAX // len(PIECE) - 1) for _ in range(many)]
    held = _held(rig, senders)
    assert 0 < held <= BODIES_OF_CALLER * BYTES_MAX
    assert rig.gate.budgets.refused == many - BODIES_OF_CALLER, "the others are read on and dropped, and told 429 at their end"


def test_uploads_of_callers_without_the_right_are_not_buffered(rig: Rig) -> None:
    nobody = rig.token("alpha", "nobody")
    senders = [Sender("/feed/v1/alpha/commit", nobody, 12) for _ in range(20)]
    assert _held(rig, senders) == 0


@pytest.mark.parametrize("size", [SMALL_BODY_BYTES + 1, BYTES_MAX])
def test_a_compressed_body_is_not_read_from_a_caller_without_the_right(rig: Rig, size: int) -> None:
    """It is no JSON: had it been decoded, the answer would be another one."""
    assert _commit_packed(rig, rig.token("alpha", "nobody"), size).status_code == 403
    assert _commit_packed(rig, rig.token("alpha"), size).status_code == 400, "of who may, it is read"
    assert rig.gate.budgets.body_bytes == 0, "everything is given back"


def test_a_decompressed_body_uses_the_callers_share_of_memory(rig: Rig) -> None:
    rig.gate.budgets = Budgets(BYTES_MAX // BODIES_OF_CALLER)
    root = rig.token("alpha")
    assert _commit_packed(rig, root, BYTES_MAX).status_code == 400
    rig.gate.budgets = Budgets(BYTES_MAX // BODIES_OF_CALLER - 1)
    assert _commit_packed(rig, root, BYTES_MAX).status_code == 429
    assert rig.gate.budgets.body_bytes == 0


def test_a_gzip_body_that_is_too_large_or_cut_off_is_refused(rig: Rig) -> None:
    root = rig.token("alpha")
    assert _commit_packed(rig, root, BYTES_MAX + 1).status_code == 413
    assert _commit_packed(rig, root, 200_000, cut=4).json()["detail"].startswith("the gzip body is cut off")


def test_bytes_after_a_gzip_body_are_refused_and_not_dropped(rig: Rig) -> None:
    body = b'{"catalog": "lake", "operations": []}'
    for rest in (gzip.compress(b" "), b"x"):
        answer = rig.ask(
            "POST", "/feed/v1/alpha/commit", token=rig.token("alpha"), content=gzip.compress(body) + rest, headers=GZIP
        )
        assert answer.status_code == 400 and "after the gzip body" in answer.json()["detail"]


def test_a_body_in_tiny_pieces_takes_no_more_memory_than_in_large_ones(rig: Rig) -> None:
    class Trickle(Sender):
        async def receive(self) -> dict[str, Any]:
            piece = bytes((self.read % 200, self.read % 199))  # of its own: short ones are shared by the interpreter
            return {**await super().receive(), "body": piece}

    async def read() -> int:
        reader, sender = BodyReader(rig.gate.budgets, BODY, "trickle", BYTES_MAX), Trickle("/", None, 20_000, ends=True)
        tracemalloc.start()
        try:
            body = await reader.read(sender.scope, sender.receive, None)
            return tracemalloc.get_traced_memory()[1] // len(body)
        finally:
            tracemalloc.stop()
            reader.close()

    assert rig.run(read()) < 8


def test_a_parameter_that_comes_twice_is_refused_on_every_route(rig: Rig) -> None:
    tried: dict[str, int] = {}
    mine = [asked for asked in _routes(rig) if asked.route.needs is not None and not asked.route.needs.is_system]
    for asked in mine:
        for one in asked.route.parameters:
            if not one.many:
                answer = rig.ask(asked.method, f"{asked.path}?{one.name}=1&{one.name}=1", token=rig.token("alpha"))
                assert answer.status_code == 400 and "it comes 2 times" in answer.text, (str(asked), one.name, answer.text)
                tried[asked.api.name] = tried.get(asked.api.name, 0) + 1
    assert tried.keys() >= {"feed", "iceberg", "nessie", "manage"}


_NESSIE_COMMIT = "/api/v2/trees/main/history/commit"


@pytest.mark.parametrize(
    ("name", "value", "path", "status"),
    [
        ("authorization", "Bearer x", "/feed/v1/alpha/commit", 401),
        ("authorization", "Basic eDp5", "/manage/v1/alpha/oauth/tokens", 400),
        ("content-encoding", "identity", "/feed/v1/alpha/commit", 400),
        ("idempotency-key", "1", "/feed/v1/alpha/commit", 400),
        ("idempotency-key", "1", "/manage/v1/alpha/catalogs/lake/namespaces", 400),
        ("if-match", '"1"', "/feed/v1/alpha/commit", 400),
        ("x-headwater-realm", "alpha", _NESSIE_COMMIT, 400),
    ],
)
def test_a_header_that_orders_something_is_refused_if_it_comes_twice(
    rig: Rig, name: str, value: str, path: str, status: int
) -> None:
    """Of two, a proxy may have inspected the other one."""
    body = b'{"catalog": "lake", "operations": []}' if path.endswith("/commit") else b'{"path": ["twice"]}'
    body = b"grant_type=client_credentials" if path.endswith("/tokens") else body
    others = [] if name == "authorization" else [("authorization", f"Bearer {rig.token('alpha')}")]
    once, twice = ([*others, *[(name, value)] * count] for count in (1, 2))
    answers = [rig.run(_sent(rig, "POST", path, headers, body)) for headers in (once, twice)]
    assert answers[1].status_code == status and answers[1].text != answers[0].text
    assert re.search("twice|more than once|more than one token", answers[1].text), answers[1].text


async def _sent(rig: Rig, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> httpx.Response:
    transport = httpx.ASGITransport(app=rig.gate, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://headwater.test", timeout=30) as client:
        return await client.request(method, path, headers=headers, content=body)


def _commit_packed(rig: Rig, token: str, size: int, *, cut: int = 0) -> httpx.Response:
    body = gzip.compress(b"x" * size)
    return rig.ask("POST", "/feed/v1/alpha/commit", token=token, content=body[: len(body) - cut], headers=GZIP)


def test_a_body_of_too_many_elements_is_refused_before_it_is_decoded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one who may do everything: decoding it would keep everyone waiting."""
    from headwater.service.gate import request as module

    decoded: list[int] = []
    real = module.decode_body
    monkeypatch.setattr(module, "decode_body", lambda body, decoder: decoded.append(len(body)) or real(body, decoder))
    body = b'{"catalog":"lake","operations":[' + b"[]," * 290_000 + b"[]]}"
    answer = rig.ask("POST", "/feed/v1/alpha/commit", token=rig.token("alpha"), content=body)
    assert answer.status_code == 413 and answer.json()["facts"]["elements_max"] == 250_000, answer.text
    assert not decoded


def test_unfinished_forms_of_one_address_leave_places_for_all_others(rig: Rig) -> None:
    path = "/manage/v1/alpha/oauth/tokens"
    senders = [Sender(path, None, 1) for _ in range(UPLOADS_OF_ADDRESS_MAX + 20)]

    async def hold() -> None:
        tasks = await _until_read_or_answered(rig, senders)
        assert [one.status for one in senders].count(429) == 20
        assert all(one.read == 0 for one in senders if one.status == 429), "answered without reading"
        other = Sender(path, None, 1, peer="192.0.2.8", ends=True)
        await rig.gate(other.scope, other.receive, other.send)  # type: ignore[arg-type]
        assert other.status == 400
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    rig.run(hold())
    assert rig.gate.budgets.requests == 0


def test_health_is_answered_when_every_slot_is_in_use(rig: Rig) -> None:
    rig.gate.budgets.requests = 8_192
    try:
        assert rig.get("/livez").status_code == 200 and rig.get("/readyz").status_code == 200
        refused = rig.get("/feed/v1/alpha/pointers", rig.token("alpha"))
        assert refused.status_code == 503 and "retry-after" in refused.headers
    finally:
        rig.gate.budgets.requests = 0


def test_every_slot_is_released_after_any_request(rig: Rig) -> None:
    for one in _routes(rig):
        if one.path.endswith("/stream"):
            continue
        for token in (None, rig.token("alpha", "nobody"), rig.token("beta", "stranger")):
            ask(rig, one, token)
    budgets = rig.gate.budgets
    assert (budgets.requests, budgets.body_bytes, len(budgets._requests), len(budgets._uploads)) == (0, 0, 0, 0)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


class Reader:
    """A request whose answer is taken until its body begins, and then no more."""

    def __init__(self, token: str, *, takes: int = 0) -> None:
        self.scope = {**Sender(CHANGES, token, 0).scope, "method": "GET", "query_string": b"pointer=cat/1/heads/main"}
        self.receive = Sender(CHANGES, token, 0).receive
        self._takes = takes
        self.sent: list[dict[str, Any]] = []
        self.waits = asyncio.Event()

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("more_body", False):
            if not self._takes:
                self.waits.set()
                await asyncio.Event().wait()
            self._takes -= 1

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status


CHANGES = "/feed/v1/alpha/changes"


def _fill_page(rig: Rig) -> int:
    """Makes the answer of `CHANGES` large; how large."""
    operations = [
        {"op": "put", "key": [f"big-{n}"], "type": "NAMESPACE", "content": {"properties": {"p": "x" * 8_000}}}
        for n in range(40)
    ]
    body = {"catalog": "lake", "operations": operations, "message": "fill a page"}
    token = rig.token("alpha")
    assert rig.ask("POST", "/feed/v1/alpha/commit", token=token, json=body).status_code == 200
    size = len(rig.get(f"{CHANGES}?pointer=cat/1/heads/main", token).content)
    assert size > 4 * SMALL_ANSWER_BYTES
    return size


def test_answers_that_one_caller_does_not_read_fill_its_share_of_the_memory_and_no_more(rig: Rig) -> None:
    """Its next requests are refused before they are handled, and all others are answered."""
    size, greedy = _fill_page(rig), rig.principal("alpha", "greedy", over_realm=(Right.REALM_MANAGE,))
    budgets = rig.gate.budgets = Budgets(size * 2 // BODIES_OF_CALLER + 1)
    readers = [Reader(greedy) for _ in range(12)]

    async def hold() -> None:
        tasks = await _until_read_or_answered(rig, readers)
        assert sorted(one.status for one in readers) == [200] * 3 + [429] * 9, "there was room before the third"
        assert all(b"retry-after" in dict(one.sent[0]["headers"]) for one in readers if one.status == 429)
        assert budgets.answer_bytes == 3 * size and budgets.refused == 9
        other = Reader(rig.token("alpha"), takes=1_000)
        await rig.gate(other.scope, other.receive, other.send)  # type: ignore[arg-type]
        assert other.status == 200 and sum(len(one.get("body", b"")) for one in other.sent) == size
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    rig.run(hold())
    assert (budgets.answer_bytes, budgets.requests, len(budgets._answers)) == (0, 0, 0), "everything is given back"
    assert rig.get(f"{CHANGES}?pointer=cat/1/heads/main", greedy).status_code == 200


def test_answers_that_many_callers_do_not_read_leave_small_answers_to_all(rig: Rig) -> None:
    _fill_page(rig)
    rig.gate.budgets.answer_bytes = BODIES_OF_WORKER * BYTES_MAX
    assert rig.get(f"{CHANGES}?pointer=cat/1/heads/main", rig.token("alpha")).status_code == 503
    assert rig.get("/feed/v1/alpha/pointers", rig.token("alpha")).status_code == 200
    assert rig.commit("alpha", ("small",)).status_code == 200


def test_a_reader_that_reads_nothing_is_disconnected(tmp_path: Path) -> None:
    with access_rig(tmp_path, stall_seconds=0.1) as rig:
        _fill_page(rig)
        reader = Reader(rig.token("alpha"), takes=2)
        rig.run(rig.gate(reader.scope, reader.receive, reader.send))  # type: ignore[arg-type]
        assert reader.status == 200 and reader.sent[-1]["more_body"], "its end was not sent"
        assert (rig.gate.budgets.given_up, rig.gate.budgets.answer_bytes) == (1, 0)


def test_a_small_body_is_all_that_a_route_without_a_right_reads() -> None:
    """The bound that the tests above send more than."""
    assert 12 * len(PIECE) > SMALL_BODY_BYTES > len(PIECE)
    assert all(route.budget is not None for _, route in route_table().routes)
