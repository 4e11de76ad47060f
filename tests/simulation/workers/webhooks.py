"""Runs `headwater webhook send` until it is killed, against a receiver that is away at times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import msgspec

from headwater.cli.feed import webhook
from headwater.consumers.clients.local_transport import LocalTransport
from headwater.consumers.clients.reader import Reader
from headwater.consumers.webhooks.dead_letters import read_dead_letters
from headwater.schemas.errors import HeadwaterError
from tests.simulation.promises import broken
from tests.simulation.world.environment import CATALOG, REALM, Environment

POINTER = "cat/1/heads/main"
SECRET = "HEADWATER_SIMULATION_SECRET"


class WebhookWorker:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)
        self._down_until = 0
        self._seen: dict[int, str] = {}
        """Seq → entry id of what the receiver was ever called with, or would have been."""
        self._taken: dict[int, str] = {}
        os.environ[SECRET] = "whsec_simulated"
        env.handlers["receiver-down"] = lambda event: self._go_away(event.seconds)

    def work(self) -> None:
        engine = self._env.open()
        webhook.connected = self._connected(engine)  # type: ignore[attr-defined]
        webhook.httpx = SimpleNamespace(Client=lambda: httpx.Client(transport=httpx.MockTransport(self._receive)))  # type: ignore[attr-defined]
        while True:
            try:
                self._send()
            except HeadwaterError as error:
                self._env.happened[f"webhook {type(error).__name__}"] += 1
            self._env.scheduler.sleep(0.5)

    def _send(self) -> None:
        assert webhook.send.callback is not None
        webhook.send.callback(
            server="simulated",
            pointers=(POINTER,),
            branch="main",
            realm=REALM,
            catalog=CATALOG,
            url="http://127.0.0.1:9/",
            secret_env=SECRET,
            cursor_file=str(self._env.folder / f"{self.name}-cursor"),
            dead_letters=str(self._env.folder / f"{self.name}-dead"),
            after="latest",
            follow=True,
            tries=3,
            allow_private=True,
            json_output=True,
        )

    def _connected(self, engine: object) -> object:
        def reader(pointers: tuple[str, ...], after: str) -> Reader:
            transport = LocalTransport(engine.realm(REALM).feed, pointers)  # type: ignore[attr-defined]
            return Reader(transport, after, log=transport)

        @contextmanager
        def connected(server: str, realm: str) -> Iterator[SimpleNamespace]:
            yield SimpleNamespace(reader=reader)

        return connected

    # ── the receiver ────────────────────────────────────────────────────────────────────────────────────────

    def _go_away(self, seconds: float) -> None:
        self._down_until = self._env.scheduler.now + int(seconds * 1e6)

    def _receive(self, request: httpx.Request) -> httpx.Response:
        change = msgspec.json.decode(request.read())["change"]
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
        return len(self._log()) in self._taken

    def check(self) -> None:
        log, dead = self._log(), self._env.folder / f"{self.name}-dead"
        letters = read_dead_letters(dead, lambda torn: None) if dead.exists() else ()
        known = {*self._taken, *(letter.envelope.change.seq for letter in letters)}
        missing = [seq for seq in range(min(self._seen, default=1), len(log) + 1) if seq not in known]
        if missing:
            broken("webhook", f"entries {missing[:9]} of {POINTER} were neither taken nor buried")
        other = [seq for seq, entry_id in self._taken.items() if seq <= len(log) and log[seq - 1] != entry_id]
        if other:
            broken("webhook", f"what was sent as entries {other[:9]} is not in the log")

    def _log(self) -> list[str]:
        return [entry.entry_id for entry in self._env.model.logs.get((self._env.realm_instance, POINTER), [])]
