"""Webhooks arrive signed and in order, are tried again, end in the dead-letter file, and reach no private address."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import httpx
import msgspec
import pytest
import standardwebhooks

from headwater.consumers.backoff import Backoff
from headwater.consumers.webhooks.cloud_event import CloudEvent
from headwater.consumers.webhooks.dead_letters import DeadLetter, read_dead_letters
from headwater.consumers.webhooks.webhook_addresses import CheckedTransport, Resolve, checked_url, is_forbidden, resolve
from headwater.consumers.webhooks.webhook_delivery import Webhook, WebhookSender, deliver
from headwater.consumers.webhooks.webhook_signing import check_secret, new_secret
from headwater.schemas.errors import AddressForbidden, HeadwaterError, InvalidInput
from tests.support.models.feed_histories import history
from tests.support.servers.self_signed import self_signed, signed_by
from tests.support.servers.webhook_receiver import receiving

SECRET, NEXT = new_secret(), new_secret()
LOG = history(4)


@contextmanager
def sender(
    url: str, tmp_path: Path, *, tries_max: int = 4, allow_private: bool = True, resolve: Resolve = resolve
) -> Iterator[WebhookSender]:
    webhook = Webhook(url=url, secrets=(SECRET, NEXT), allow_private=allow_private, tries_max=tries_max)
    with httpx.Client(transport=CheckedTransport()) as client:
        yield WebhookSender(
            webhook,
            tmp_path / "dead.jsonl",
            client=client,
            resolve=resolve,
            make_backoff=lambda tries: Backoff(first_seconds=0.001, tries_max=tries),
        )


def letters(tmp_path: Path) -> list[DeadLetter]:
    torn: list[int] = []
    found = list(read_dead_letters(tmp_path / "dead.jsonl", torn.append))
    assert torn == []
    return found


def test_changes_arrive_signed_whole_and_in_order(tmp_path: Path) -> None:
    with receiving() as receiver, sender(receiver.url, tmp_path) as sending:
        done: list[int] = []
        assert list(deliver(LOG, [sending], lambda change: done.append(change.seq))) == []
    events = [msgspec.json.decode(body, type=CloudEvent) for _, body in receiver.calls]
    assert [event.data for event in events] == LOG and done == [1, 2, 3, 4]
    assert {(event.specversion, event.type) for event in events} == {("1.0", "io.headwater.change")}
    assert (events[0].source, events[0].subject) == (f"/realms/{LOG[0].realm}", LOG[0].pointer)
    headers, _ = receiver.calls[0]
    assert headers["content-type"] == "application/cloudevents+json"
    assert headers["webhook-id"] == events[0].id == LOG[0].entry_id
    assert headers["host"] == f"localhost:{receiver.server_address[1]}"


def test_receivers_check_the_signature_with_the_library_of_the_specification(tmp_path: Path) -> None:
    with receiving() as receiver, sender(receiver.url, tmp_path) as sending:
        assert sending.send(LOG[0])
    headers, body = receiver.calls[0]
    for secret in (SECRET, NEXT):
        assert standardwebhooks.Webhook(secret).verify(body, headers)["id"] == LOG[0].entry_id
    for secret, changed in ((new_secret(), body), (SECRET, body + b" ")):
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            standardwebhooks.Webhook(secret).verify(changed, headers)


def test_a_change_that_the_receiver_cannot_accept_now_is_sent_again_unchanged(tmp_path: Path) -> None:
    with receiving(lambda call: 503 if call < 3 else 200) as receiver, sender(receiver.url, tmp_path) as sending:
        assert sending.send(LOG[0])
    assert len({body for _, body in receiver.calls}) == 1
    assert [headers["headwater-attempt"] for headers, _ in receiver.calls] == ["1", "2", "3"]
    assert not (tmp_path / "dead.jsonl").exists()


@pytest.mark.parametrize(("status", "calls"), [(500, 4), (429, 4), (400, 1), (413, 1)])
def test_a_refused_change_goes_to_the_dead_letter_file_and_the_rest_continues(tmp_path: Path, status: int, calls: int) -> None:
    def answer(call: int) -> int:
        return status if call <= calls else 200

    with receiving(answer) as receiver, sender(receiver.url, tmp_path) as sending:
        assert list(deliver(LOG[:2], [sending], lambda _: None)) == [LOG[0]]
    assert len(receiver.calls) == calls + 1
    (letter,) = letters(tmp_path)
    assert (letter.event.data, letter.attempts, letter.url) == (LOG[0], calls, receiver.url)
    assert str(status) in letter.error


def test_a_change_for_a_missing_receiver_is_a_dead_letter_too(tmp_path: Path) -> None:
    with receiving() as gone:
        url = gone.url
    with sender(url, tmp_path, tries_max=2) as sending:
        assert not sending.send(LOG[0])
    (letter,) = letters(tmp_path)
    assert letter.attempts == 2


def test_no_private_address_is_called_unless_allowed(tmp_path: Path) -> None:
    with receiving() as receiver, sender(receiver.url, tmp_path, allow_private=False) as sending:
        with pytest.raises(AddressForbidden):
            sending.check()
        with pytest.raises(AddressForbidden):
            sending.send(LOG[0])
    assert receiver.calls == [] and not (tmp_path / "dead.jsonl").exists()


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405, 410])
def test_a_refusal_that_is_about_the_address_gives_up_no_change(tmp_path: Path, status: int) -> None:
    moved: list[int] = []
    with (
        receiving(lambda call: status if call == 2 else 200) as receiver,
        sender(receiver.url, tmp_path) as sending,
        pytest.raises(HeadwaterError, match=str(status)),
    ):
        list(deliver(LOG, [sending], lambda change: moved.append(change.seq)))
    assert len(receiver.calls) == 2, "the address was called for the change, and not again"
    assert moved == [1] and not (tmp_path / "dead.jsonl").exists()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "255.255.255.255", "224.0.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1",
        "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1", "nonsense", "192.0.0.192", "192.88.99.1", "fec0::1",
        "3fff::1", "5f00::1", "64:ff9b:1::7f00:1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_forbidden(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_not(address: str) -> None:
    assert not is_forbidden(address)


def test_one_private_address_among_several_forbids_the_host_name() -> None:
    with pytest.raises(AddressForbidden, match=r"10\.0\.0\.1"):
        checked_url("https://mixed.example/", resolve=lambda host, port: ["8.8.8.8", "10.0.0.1"])


def test_a_webhook_calls_the_address_that_was_checked() -> None:
    checked = checked_url("https://receiver.example:8443/a?b=c", resolve=lambda host, port: ["8.8.8.8"])
    assert (checked.url, checked.host) == ("https://8.8.8.8:8443/a?b=c", "receiver.example")
    assert checked.host_header == "receiver.example:8443"
    assert (
        checked_url("http://v6.example/", resolve=lambda host, port: ["2606:4700::1111"]).url == "http://[2606:4700::1111]:80/"
    )


@pytest.mark.parametrize(
    "url",
    [
        "", "ftp://host/", "ftp://host:21/", "gopher://host:80/", "https:///x", "https://user:pw@host/", "https://host:99999/",
        "file:///x", "https://a..b/", f"https://{'a' * 64}.example/", "https://[::1/", "https://host/\x00", "https://host/?\x7f",
        f"https://host/{'a' * 70_000}", "https://host\x7f/", "https://ho st/", "https://good.example\\@host/",
    ],
)  # fmt: skip
def test_what_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        checked_url(url, resolve=lambda host, port: ["8.8.8.8"])


@pytest.mark.parametrize(
    "host",
    ["127.1", "0x7f.1", "2130706433", "017700000001", "①②⑦.⓪.⓪.①", "127。0。0。1", "[::ffff:7f00:1]", "[0:0::1]", "localhost"],
)
def test_every_form_of_a_private_address_is_recognised(host: str) -> None:
    with pytest.raises(AddressForbidden):
        checked_url(f"http://{host}/")


def test_a_name_that_is_not_ascii_is_called_by_its_ascii_form(tmp_path: Path) -> None:
    with receiving() as receiver:
        url = receiver.url.replace("localhost", "bücher.example")
        with sender(url, tmp_path, resolve=lambda host, port: ["127.0.0.1"]) as sending:
            assert sending.send(LOG[0])
    assert receiver.calls[0][0]["host"] == f"xn--bcher-kva.example:{receiver.server_address[1]}"


def test_a_name_that_turns_private_between_two_attempts_is_called_once(tmp_path: Path) -> None:
    answers, called = iter([["8.8.8.8"], ["10.0.0.1"]]), []

    def unavailable(request: httpx.Request) -> httpx.Response:
        called.append(request.url.host)
        return httpx.Response(503, content=iter([b"later"]))

    webhook = Webhook(url="https://rebinding.example/", secrets=(SECRET,))
    sending = WebhookSender(
        webhook,
        tmp_path / "dead.jsonl",
        client=httpx.Client(transport=httpx.MockTransport(unavailable)),
        resolve=lambda host, port: next(answers),
        make_backoff=lambda tries: Backoff(first_seconds=0.001, tries_max=tries),
    )
    with pytest.raises(AddressForbidden, match=r"10\.0\.0\.1"):
        sending.send(LOG[0])
    assert called == ["8.8.8.8"] and not (tmp_path / "dead.jsonl").exists()


def test_a_host_without_a_certificate_gets_nothing_over_the_connection_of_another(tmp_path: Path) -> None:
    authority = self_signed(tmp_path)
    (folder := tmp_path / "server").mkdir()
    certificate, key = signed_by(authority, folder, "one.example")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    with receiving(tls=serving) as receiver:
        port = receiver.server_address[1]
        with httpx.Client(transport=CheckedTransport(ssl.create_default_context(cafile=authority[0]))) as client:
            for name in ("one.example", "other.example", "one.example"):
                with suppress(httpx.ConnectError) if name == "other.example" else nullcontext():
                    client.post(
                        f"https://127.0.0.1:{port}/", content=name, headers={"host": name}, extensions={"sni_hostname": name}
                    )
    assert [body for _, body in receiver.calls] == [b"one.example", b"one.example"]
    assert receiver.connections == 2, "the first connection was open when the other host was called, and used again"


def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_address[1]}")
        with sender(receiver.url, tmp_path) as sending:
            assert sending.send(LOG[0])
    assert (len(proxy.calls), len(receiver.calls)) == (0, 1)


@pytest.mark.parametrize("seconds", ["9" * 5_000, "9" * 30, "²", "-1", "soon"])
def test_a_receiver_cannot_end_the_delivery_by_when_it_wants_to_be_called_again(tmp_path: Path, seconds: str) -> None:
    with (
        receiving(lambda _: 503, headers={"retry-after": seconds}) as receiver,
        sender(receiver.url, tmp_path, tries_max=2) as sending,
    ):
        assert not sending.send(LOG[0])
    assert len(receiver.calls) == 2 and "503" in letters(tmp_path)[0].error


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["/hook", "http://169.254.169.254/latest", "http://10.0.0.1/", "//other.example/"])
def test_no_redirect_is_followed(tmp_path: Path, status: int, where: str) -> None:
    with (
        receiving(lambda _: status, headers={"location": where}) as receiver,
        sender(receiver.url, tmp_path) as sending,
        pytest.raises(AddressForbidden, match=str(status)),
    ):
        sending.send(LOG[0])
    assert len(receiver.calls) == 1 and not (tmp_path / "dead.jsonl").exists()


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_example", "plain", "whsec_AAAA", "A" * 44, "whsec_" + "A" * 31])
def test_a_secret_that_receivers_would_read_differently_is_refused(tmp_path: Path, secret: str) -> None:
    with httpx.Client() as client, pytest.raises(InvalidInput, match="secret"):
        WebhookSender(Webhook(url="https://a.example", secrets=(secret,)), tmp_path / "d", client=client)
    assert check_secret(SECRET) == SECRET


def test_a_webhook_without_a_secret_is_refused(tmp_path: Path) -> None:
    with httpx.Client() as client, pytest.raises(InvalidInput, match="secret"):
        WebhookSender(Webhook(url="https://a.example", secrets=()), tmp_path / "d", client=client)


def test_a_truncated_dead_letter_hides_no_other(tmp_path: Path) -> None:
    file = tmp_path / "dead.jsonl"
    with receiving(lambda _: 400) as receiver, sender(receiver.url, tmp_path) as sending:
        sending.send(LOG[0])
        whole = file.read_bytes()
        for tail in (whole[:200], whole[:-1], b"\x00" * 64, whole[:99] + b"\xc3"):  # as a full disk or a crash leaves it
            file.write_bytes(whole + tail)
            sending.send(LOG[1])
            torn: list[int] = []
            found = [letter.event.data.seq for letter in read_dead_letters(file, torn.append)]
            assert (found, torn) == (([1, 1, 2], []) if tail == whole[:-1] else ([1, 2], [2]))


def test_a_file_that_holds_no_letter_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.txt"
    file.write_text("nonsense\n")
    with pytest.raises(InvalidInput, match="no dead letter"):
        list(read_dead_letters(file, lambda _: None))
    file.write_text("")
    assert list(read_dead_letters(file, lambda _: None)) == []
