"""Posts signed Changes in order, each until it is accepted, or writes it to the dead-letter file.

A receiver gets every Change at least once and tells repeats by `id`. Redirects are not followed: they are a way to another
address than the one that was agreed on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import httpx
import msgspec

from headwater.consumers.backoff import Backoff
from headwater.consumers.webhooks.dead_letters import DeadLetter, Envelope, bury
from headwater.consumers.webhooks.webhook_addresses import Resolve, checked_url, resolve
from headwater.consumers.webhooks.webhook_signing import SIGNATURE_HEADER, sign
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import AddressForbidden, Fact, FeedUnreachable, HeadwaterError, InvalidInput

TRIES_MAX = 8
TIMEOUT = httpx.Timeout(10.0, connect=5.0)
ANSWER_CHARACTERS_MAX = 200
"""Kept of a refusal; of the rest nothing is read: a receiver cannot fill the sender's memory."""
_RETRIABLE = frozenset({408, 425, 429})


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    secrets: tuple[bytes, ...]
    """All are signed with, so that a receiver may change over from one to the next."""
    allow_private: bool = False
    tries_max: int = TRIES_MAX


class WebhookSender:
    def __init__(
        self,
        webhook: Webhook,
        dead_letters: Path,
        *,
        client: httpx.Client,
        resolve: Resolve = resolve,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        make_backoff: Callable[[int], Backoff] | None = None,
    ) -> None:
        if not webhook.secrets or not all(webhook.secrets):
            raise InvalidInput("there is no secret to sign with.", field="secret", remedy="Give one that the receiver knows.")
        self._webhook = webhook
        self._dead_letters = dead_letters
        self._client = client
        self._resolve = resolve
        self._clock = clock
        self._sleep = sleep
        self._make_backoff = make_backoff or (lambda tries: Backoff(first_seconds=1.0, seconds_max=60.0, tries_max=tries))

    def send(self, change: Change) -> bool:
        """Whether it was taken; if not, it is in the dead-letter file when this returns."""
        envelope = Envelope(id=change.entry_id, change=change)
        body = msgspec.json.encode(envelope)
        backoff = self._make_backoff(self._webhook.tries_max)
        while True:
            try:
                self._call(body, envelope.id, backoff.failures + 1)
                return True
            except HeadwaterError as error:
                try:
                    self._sleep(backoff.after(error))
                except HeadwaterError as final:
                    self._bury(envelope, backoff.failures, final)
                    return False

    def _call(self, body: bytes, id: str, attempt: int) -> None:
        """⚠ The address is looked up and checked at every attempt, and it is the checked address that is called."""
        to = checked_url(self._webhook.url, allow_private=self._webhook.allow_private, resolve=self._resolve)
        headers = {
            "host": to.host_header,
            "content-type": "application/json",
            "user-agent": "headwater-webhook/1",
            "headwater-delivery": id,
            "headwater-attempt": str(attempt),
            SIGNATURE_HEADER: sign(body, self._webhook.secrets, int(self._clock())),
        }
        try:
            with self._client.stream(
                "POST",
                to.url,
                content=body,
                headers=headers,
                timeout=TIMEOUT,
                follow_redirects=False,
                extensions={"sni_hostname": to.host},
            ) as response:
                _require_taken(response)
        except httpx.TransportError as error:
            raise FeedUnreachable(f"{type(error).__name__}: {error}", field="url") from error

    def _bury(self, envelope: Envelope, attempts: int, error: HeadwaterError) -> None:
        letter = DeadLetter(
            url=self._webhook.url,
            time=time_text(int(self._clock() * 1_000_000)),
            attempts=attempts,
            error=f"{error.code}: {error}",
            envelope=envelope,
        )
        bury(self._dead_letters, letter)


def _require_taken(response: httpx.Response) -> None:
    if response.is_success:
        return
    status = response.status_code
    said = next(response.iter_raw(), b"")[:ANSWER_CHARACTERS_MAX].decode(errors="replace")
    if status in _RETRIABLE or status >= 500:
        error = FeedUnreachable(f"the receiver answered {status}: {said}", field="url")
        text = response.headers.get("retry-after", "")
        error.facts |= {"retry_after_seconds": int(text)} if text.isascii() and text.isdecimal() else dict[str, Fact]()
        raise error
    if response.is_redirect:
        raise AddressForbidden(f"the receiver answered {status}.", field="url", remedy="Give the address it redirects to.")
    raise InvalidInput(f"the receiver answered {status}: {said}", field="url", remedy="The receiver refuses it as it is.")


def deliver(
    changes: Iterable[Change], senders: Sequence[WebhookSender], delivered: Callable[[Change], None]
) -> Iterator[Change]:
    """To all, in order; `delivered` is called behind each, for the position. Those that were not taken by everyone leave."""
    for change in changes:
        taken = [sender.send(change) for sender in senders]
        delivered(change)
        if not all(taken):
            yield change
