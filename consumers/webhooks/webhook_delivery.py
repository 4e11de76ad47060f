"""Posts signed Changes in order, each until it is accepted, or writes it to the dead-letter file.

A receiver gets every Change at least once and detects repeats by `webhook-id`. Redirects are not followed: they lead to another
address than the agreed one. ⚠ A refusal that concerns the address is not an error of a Change: it ends the delivery, and
nothing is given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import httpx
import msgspec

from headwater.consumers.backoff import Backoff
from headwater.consumers.webhooks.cloud_event import CONTENT_TYPE, CloudEvent, cloud_event
from headwater.consumers.webhooks.dead_letters import DeadLetter, bury
from headwater.consumers.webhooks.webhook_addresses import CheckedUrl, Resolve, checked_url, resolve
from headwater.consumers.webhooks.webhook_signing import check_secret, signed_headers
from headwater.persistence.clock import MICROS
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import AddressForbidden, FeedUnreachable, HeadwaterError, InvalidInput
from headwater.schemas.whole_numbers import whole_number

TRIES_MAX = 8
TIMEOUT = httpx.Timeout(10.0, connect=5.0)
ANSWER_CHARACTERS_MAX = 200
"""Bytes of a refusal that are kept; the rest is not read, so that a receiver cannot fill the sender's memory."""
_RETRIABLE = frozenset({408, 425, 429})
_OF_ADDRESS = frozenset({401, 403, 404, 405, 410})
"""Responses that would be the same for every Change: nothing listens there, or it rejects this sender."""


class _AddressError(Exception):
    """Carries an error that concerns the address past the handling of errors of a Change."""

    def __init__(self, error: HeadwaterError) -> None:
        super().__init__(str(error))
        self.error = error


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    secrets: tuple[str, ...]
    """Every request is signed with all of them, so that a receiver may change over from one to the next."""
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
        if not webhook.secrets:
            raise InvalidInput("there is no secret to sign with.", field="secret", remedy="Give one that the receiver knows.")
        for secret in webhook.secrets:
            check_secret(secret)
        self.last_error = ""
        """Why the last dead letter was not accepted."""
        self._webhook = webhook
        self._dead_letters = dead_letters
        self._client = client
        self._resolve = resolve
        self._clock = clock
        self._sleep = sleep
        self._make_backoff = make_backoff or (lambda tries: Backoff(first_seconds=1.0, seconds_max=60.0, tries_max=tries))

    def check(self) -> None:
        """Before anything is read: an address that must not be called, or has no host, is refused."""
        self._address()

    def send(self, change: Change) -> bool:
        """Whether it was accepted; if not, it is in the dead-letter file when this returns. An error that concerns the address
        is raised."""
        event = cloud_event(change)
        body = msgspec.json.encode(event)
        backoff = self._make_backoff(self._webhook.tries_max)
        while True:
            try:
                self._call(body, event.id, backoff.failures + 1)
                return True
            except _AddressError as wrong:
                raise wrong.error from wrong
            except HeadwaterError as error:
                try:
                    self._sleep(backoff.after(error))
                except HeadwaterError as final:
                    self._bury(event, backoff.failures, final)
                    return False

    def _call(self, body: bytes, id: str, attempt: int) -> None:
        """⚠ The address is resolved and checked at every attempt, and it is the checked address that is called."""
        try:
            to = self._address()
        except (AddressForbidden, InvalidInput) as error:
            raise _AddressError(error) from error
        headers = {
            "host": to.host_header,
            "content-type": CONTENT_TYPE,
            "user-agent": "headwater-webhook/1",
            "headwater-attempt": str(attempt),
            **signed_headers(id, body, self._webhook.secrets, int(self._clock())),
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

    def _address(self) -> CheckedUrl:
        return checked_url(self._webhook.url, allow_private=self._webhook.allow_private, resolve=self._resolve)

    def _bury(self, event: CloudEvent, attempts: int, error: HeadwaterError) -> None:
        self.last_error = f"{error.code}: {error}"
        letter = DeadLetter(
            url=self._webhook.url,
            time=time_text(int(self._clock() * MICROS)),
            attempts=attempts,
            error=self.last_error,
            event=event,
        )
        bury(self._dead_letters, letter)


def _require_taken(response: httpx.Response) -> None:
    if response.is_success:
        return
    status = response.status_code
    said = next(response.iter_raw(), b"")[:ANSWER_CHARACTERS_MAX].decode(errors="replace")
    if status in _RETRIABLE or status >= 500:
        error = FeedUnreachable(f"the receiver answered {status}: {said}", field="url")
        seconds = whole_number(response.headers.get("retry-after", ""))
        error.facts |= {} if seconds is None else {"retry_after_seconds": seconds}
        raise error
    if response.is_redirect:
        raise _AddressError(
            AddressForbidden(f"the receiver answered {status}.", field="url", remedy="Give the address it redirects to.")
        )
    if status in _OF_ADDRESS:
        raise _AddressError(
            InvalidInput(
                f"the receiver answered {status}: {said}",
                field="url",
                remedy="Check the address; no Change was skipped.",
            )
        )
    raise InvalidInput(f"the receiver answered {status}: {said}", field="url", remedy="The receiver refuses it as it is.")


def deliver(
    changes: Iterable[Change], senders: Sequence[WebhookSender], delivered: Callable[[Change], None]
) -> Iterator[Change]:
    """Sends to all, in order; `delivered` is called after each, for the position. Returns those that not every receiver
    accepted."""
    for change in changes:
        taken = [sender.send(change) for sender in senders]
        delivered(change)
        if not all(taken):
            yield change
