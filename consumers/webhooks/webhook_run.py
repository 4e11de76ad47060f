"""Delivers a reader's Changes to one webhook, and keeps the position in a file."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.consumers.clients.cursor_file import CursorFile
from headwater.consumers.clients.reader import Reader
from headwater.consumers.webhooks.webhook_delivery import WebhookSender, deliver
from headwater.schemas.change import Change


class WebhookResult(msgspec.Struct, frozen=True, kw_only=True):
    taken: int
    dead_letters: int
    last_error: str = ""
    """Why the last dead letter was not accepted."""


def send_all(reader: Reader, sender: WebhookSender, kept: CursorFile, *, follow: bool) -> WebhookResult:
    """⚠ The starting position is saved before anything is sent; it moves after each delivery, and never past a Change that was
    neither accepted nor written down."""
    sender.check()
    kept.write(reader.begin(follow=follow))
    sent = 0

    def delivered(_: Change) -> None:
        nonlocal sent
        sent += 1
        kept.write(reader.cursor)

    buried = sum(1 for _ in deliver(reader.changes(follow=follow), [sender], delivered))
    kept.write(reader.cursor)
    return WebhookResult(taken=sent - buried, dead_letters=buried, last_error=sender.last_error)


def send_again(changes: Iterable[tuple[WebhookSender, Change]]) -> WebhookResult:
    taken, buried, last_error = 0, 0, ""
    for sender, change in changes:
        if sender.send(change):
            taken += 1
        else:
            buried, last_error = buried + 1, sender.last_error
    return WebhookResult(taken=taken, dead_letters=buried, last_error=last_error)
