"""`headwater subscribe` and `headwater webhook`: what they print, keep and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import standardwebhooks

from headwater import IcebergTable, Put
from headwater.consumers.webhooks.cloud_event import CloudEvent, cloud_event
from headwater.consumers.webhooks.dead_letters import DeadLetter
from headwater.consumers.webhooks.webhook_signing import new_secret
from headwater.embedded import CatalogHandle, ReferenceHandle
from headwater.schemas.change import Change
from tests.support.fixtures.cli_runs import headwater
from tests.support.models.feed_histories import history
from tests.support.servers.feed_server import FeedServer
from tests.support.servers.webhook_receiver import receiving


@pytest.fixture(scope="module")
def branch(shared_lake: CatalogHandle) -> ReferenceHandle:
    made = shared_lake.create_branch("subscribed")
    for number in range(5):
        made.commit([Put(("t",), IcebergTable(f"s3://{number}"))], message=f"number {number}")
    return made


def lines(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_store_and_server_print_the_same(branch: ReferenceHandle, shared_feed: FeedServer) -> None:
    wanted = list(branch.changes())
    sources = [["--store", shared_feed.store_url, "subscribe"], ["subscribe", "--server", shared_feed.url]]
    for source in sources:
        ran = headwater(*source, "--branch", "subscribed", "--json")
        assert ran.code == 0, ran.err
        assert [msgspec.json.decode(line, type=Change) for line in ran.out.splitlines()] == wanted
        people = headwater(*source, "--branch", "subscribed", "--limit", "2")
        assert len(people.out.splitlines()) == 2 and "number 0" in people.out


def test_a_cursor_from_one_source_continues_at_the_other(branch: ReferenceHandle, shared_feed: FeedServer) -> None:
    store = ["--store", shared_feed.store_url, "subscribe"]
    server = ["subscribe", "--server", shared_feed.url]
    for first, second in ((store, server), (server, store)):
        flags = ["--pointer", branch.pointer, "--json", "--with-cursor"]
        begun = lines(headwater(*first, *flags, "--limit", "3").out)
        rest = lines(headwater(*second, *flags, "--after", str(begun[-1]["cursor"])).out)
        assert [msgspec.convert(line["change"], Change) for line in begun + rest] == list(branch.changes())


def test_a_reader_may_name_the_commit_to_begin_after(branch: ReferenceHandle, shared_feed: FeedServer) -> None:
    third = list(branch.changes())[2]
    ran = headwater(
        "subscribe", "--server", shared_feed.url, "--branch", "subscribed", "--from-commit", third.entry_id, "--json"
    )
    assert [line["seq"] for line in lines(ran.out)] == [4, 5, 6]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--after", "1", "--from-commit", "x"], "do not go together"),
        (["--kafka", "127.0.0.1:1", "--after", "1"], "--from-commit"),
        (["--group", "g"], "add --kafka"),
        (["--subscription", "s", "--kafka", "127.0.0.1:1"], "Add --server"),
        (["--after", "nonsense"], "INVALID_INPUT"),
        (["--pointer", "nowhere"], "POINTER_NOT_FOUND"),
        (["--branch", "nowhere"], "REFERENCE_NOT_FOUND"),
        (["--catalog", "nowhere"], "CATALOG_NOT_FOUND"),
        (["--realm", "nowhere"], "REALM_NOT_FOUND"),
        (["--after", "0" * 64], "CURSOR_RESET"),
        (["--server", "nonsense"], "not the address of a server"),
        (["--kafka", "127.0.0.1:1"], "KAFKA_UNAVAILABLE"),
        (["--limit", "0"], "USAGE"),
        (["--subscription", "s", "--cursor-file", "c"], "kept for you"),
    ],
)
def test_invalid_input_is_one_line(shared_feed: FeedServer, flags: list[str], said: str) -> None:
    ran = headwater("subscribe", "--server", shared_feed.url, *flags)
    assert said in ran.error


def test_a_server_that_is_not_there_is_one_line() -> None:
    assert "FEED_UNREACHABLE" in headwater("subscribe", "--server", "http://127.0.0.1:1").error


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_a_subscription_read_in_portions_gives_each_change_once(
    branch: ReferenceHandle, shared_feed: FeedServer, limit: int
) -> None:
    flags = ["--branch", "subscribed", "--subscription", f"portions-{limit}", "--after", "earliest", "--json"]
    wanted, found = [change.seq for change in branch.changes()], list[object]()
    for _ in range(len(wanted)):
        portion = lines(headwater("subscribe", "--server", shared_feed.url, *flags, "--limit", str(limit)).out)
        assert len(portion) == min(limit, len(wanted) - len(found))
        found += [line["seq"] for line in portion]
    assert found == wanted


def test_a_cursor_file_keeps_where_a_subscriber_was(branch: ReferenceHandle, shared_feed: FeedServer, tmp_path: Path) -> None:
    kept = tmp_path / "cursor"
    flags = ["--branch", "subscribed", "--json", "--cursor-file", str(kept)]
    for source in (["--store", shared_feed.store_url, "subscribe"], ["subscribe", "--server", shared_feed.url]):
        portions = [lines(headwater(*source, *flags, "--limit", "4").out) for _ in range(3)]
        assert [line["seq"] for portion in portions for line in portion] == [change.seq for change in branch.changes()]
        kept.unlink()
    kept.touch()
    assert "is empty" in headwater("subscribe", "--server", shared_feed.url, *flags).error


def test_torn_dead_letters_are_named_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_WEBHOOK_SECRET", new_secret())
    event = cloud_event(history(1)[0])
    letter = msgspec.json.encode(DeadLetter(url="u", time="t", attempts=1, error="e", event=event))
    file = tmp_path / "dead.jsonl"
    file.write_bytes(letter + b"\n" + letter[:80] + b"\n" + letter + b"\n")
    with receiving() as receiver:
        flags = ["--url", receiver.url, "--allow-private", "--json", "--dead-letters", str(tmp_path / "still-dead")]
        ran = headwater("webhook", "redeliver", str(file), *flags)
    assert ran.json == {"taken": 2, "dead_letters": 0} and "line 2 is truncated" in ran.err and len(receiver.calls) == 2


def test_webhooks_continue_where_the_cursor_file_is_and_dead_letters_are_sent_again(
    branch: ReferenceHandle, shared_feed: FeedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = new_secret(), new_secret()
    monkeypatch.setenv("HEADWATER_WEBHOOK_SECRET", f"{old}, {new}")
    kept = ["--cursor-file", str(tmp_path / "cursor"), "--allow-private", "--tries", "1", "--json"]
    dead = ["--dead-letters", str(tmp_path / "dead.jsonl")]
    source = ["--server", shared_feed.url, "--branch", "subscribed", "--after", "earliest"]
    with receiving(lambda call: 400 if call == 2 else 200) as receiver:
        ran = headwater("webhook", "send", *source, "--url", receiver.url, *kept, *dead)
        file = str(tmp_path / "dead.jsonl")
        assert ran.code == 1 and json.loads(ran.out).items() >= {"taken": 5, "dead_letters": 1, "file": file}.items()
        assert "400" in json.loads(ran.out)["last_error"]
        assert headwater("webhook", "send", *source, "--url", receiver.url, *kept, *dead).json == {
            "taken": 0,
            "dead_letters": 0,
        }
        again = headwater("webhook", "redeliver", file, "--allow-private", "--json")
        assert again.json == {"taken": 1, "dead_letters": 0}
    bodies = [msgspec.json.decode(body, type=CloudEvent).data for _, body in receiver.calls]
    wanted = list(branch.changes())
    assert bodies == [*wanted, wanted[1]]
    headers, body = receiver.calls[0]
    assert all(standardwebhooks.Webhook(secret).verify(body, headers) for secret in (old, new))


def test_webhooks_refuse_invalid_input(shared_feed: FeedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--cursor-file", str(tmp_path / "c"), "--dead-letters", str(tmp_path / "d"), "--server", shared_feed.url]
    assert "is empty" in headwater("webhook", "send", *flags, "--url", "https://example.com/").error
    secret = headwater("webhook", "secret").succeeded().out.strip()
    monkeypatch.setenv("HEADWATER_WEBHOOK_SECRET", secret)
    with receiving() as receiver:
        refused = headwater("webhook", "send", *flags, "--after", "earliest", "--url", receiver.url).error
    assert "ADDRESS_FORBIDDEN" in refused and receiver.calls == []
    assert not (tmp_path / "c").exists() and not (tmp_path / "d").exists(), "nothing was read, moved or given up"
    letters = ["--url", "https://example.com/", "--dead-letters", str(tmp_path / "d")]
    assert "INVALID_INPUT" in headwater("webhook", "redeliver", str(tmp_path / "missing"), *letters).error
    (tmp_path / "bad").write_text("nonsense\n")
    assert "no dead letter" in headwater("webhook", "redeliver", str(tmp_path / "bad"), *letters).error
