"""Runs `headwater webhook send` until it is killed, against a receiver that is away at times."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec

from headwater.consumers.clients.cursor_file import CursorFile
from headwater.consumers.clients.local_transport import LocalTransport
from headwater.consumers.clients.reader import Reader
from headwater.consumers.webhooks.dead_letters import read_dead_letters
from headwater.consumers.webhooks.webhook_delivery import Webhook, WebhookSender
from headwater.consumers.webhooks.webhook_run import send_all
from headwater.schemas.errors import CursorGone, HeadwaterError
from tests.simulation.promises import broken
from tests.simulation.world.environment import REALM, Environment

POINTER = "cat/1/heads/main"
SECRET = "whsec_" + "A" * 32


class WebhookWorker:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)
        self._down_until = 0
        self._seen: dict[int, str] = {}
        """Seq → entry id of what the receiver was ever called with, or would have been."""
        self._taken: dict[int, str] = {}
        env.handlers["receiver-down"] = lambda event: self._go_away(event.seconds)

    def work(self) -> None:
        engine = self._env.open()
        webhook = Webhook(url="http://127.0.0.1:9/", secrets=(SECRET,), allow_private=True, tries_max=3)
        kept = CursorFile(self._env.folder / f"{self.name}-cursor")
        client = httpx.Client(transport=httpx.MockTransport(self._receive))
        while True:
            try:
                transport = LocalTransport(engine.realm(REALM).feed, (POINTER,))
                reader = Reader(transport, kept.read() or "latest", log=transport)
                send_all(reader, WebhookSender(webhook, self._dead, client=client), kept, follow=True)
            except CursorGone as gone:
                self._begin_again(gone)
            except HeadwaterError as error:
                self._env.happened[f"webhook {type(error).__name__}"] += 1
            self._env.scheduler.sleep(0.5)

    def _begin_again(self, gone: CursorGone) -> None:
        """Its operator empties what the receiver holds, and sends everything that the log has."""
        self._env.happened[f"webhook {type(gone).__name__}"] += 1
        if not self._env.model.restores:
            broken("cursor", f"{self.name} was told that its cursor is gone, and no history was replaced: {gone}")
        self._seen.clear()
        self._taken.clear()
        (self._env.folder / f"{self.name}-cursor").write_text("earliest")

    @property
    def _dead(self) -> Path:
        return self._env.folder / f"{self.name}-dead"

    # ── the receiver ────────────────────────────────────────────────────────────────────────────────────────

    def _go_away(self, seconds: float) -> None:
        self._down_until = self._env.scheduler.now + int(seconds * 1e6)

    def _receive(self, request: httpx.Request) -> httpx.Response:
        change = msgspec.json.decode(request.read())["data"]
        self._env.scheduler.step(f"webhook call {change['seq']}")
        self._seen[change["seq"]] = change["entry_id"]
        if self._env.scheduler.now < self._down_until and not self._env.quiet:
            raise httpx.ConnectError("refused")
        self._taken[change["seq"]] = change["entry_id"]
        self._env.happened["webhook taken"] += 1
        if self._chance.random() < 0.1 and not self._env.quiet:
            raise httpx.ReadTimeout("the answer was lost")
        return httpx.Response(204)

    # ── at the end ──────────────────────────────────────────────────────────────────────────────────────────

    def is_done(self) -> bool:
        log = self._log()
        return not log or self._taken.get(len(log)) == log[-1] or len(log) in self._buried(log)

    def check(self) -> None:
        log = self._log()
        buried = self._buried(log)
        known = {*self._taken, *buried}
        missing = [seq for seq in range(min(self._seen, default=1), len(log) + 1) if seq not in known]
        if missing:
            broken("webhook", f"entries {missing[:9]} of {POINTER} were neither taken nor buried")
        # An entry that was taken right before a restore, its cursor not yet kept, has another in its place: taken, or buried.
        replaced = {seq for seq, entry_id in self._taken.items() if seq <= len(log) and log[seq - 1] != entry_id}
        other = sorted(replaced - buried)
        if other:
            broken("webhook", f"what was sent as entries {other[:9]} is not in the log")

    def _buried(self, log: list[str]) -> set[int]:
        letters = read_dead_letters(self._dead, lambda torn: None) if self._dead.exists() else ()
        return {letter.event.data.seq for letter in letters if letter.event.data.entry_id in log}

    def _log(self) -> list[str]:
        return [entry.entry_id for entry in self._env.model.logs.get((self._env.realm_instance, POINTER), [])]
