"""The promises that are checked: each has a name and a sentence of docs/guarantees.md."""

from __future__ import annotations

from pathlib import Path

PROMISES = {
    "chain": "Concurrent writers of one branch",
    "request-once": "One request id commits once",
    "acknowledged": "Every acknowledged commit is in the log once",
    "merge": "After expiry, sweeps, deletions and resets, a merge gives the same result",
    "state": "After a sweep exactly the objects that retained states reach are left",
    "notice": "A follower is woken immediately by commits of its own process",
    "cursor": "A consumer that is killed -9 and restarted with its cursor",
    "same-log": "Polling, streams, Kafka and an exported file",
    "webhook": "a Change that cannot be delivered goes to the dead-letter file",
    "pins": "No floor rises past a subscription",
    "superseded": "An expiry that was superseded",
    "tables": "The tables topic equals the snapshots",
    "archive": "An archive holds each Change once without a gap",
    "goes-on": "",
}
"""Name → how a sentence of docs/guarantees.md begins. `goes-on` is the simulation's own: when all faults have ended, every
worker gets through again."""

GUARANTEES = Path(__file__).parents[2] / "docs/guarantees.md"


def sentence(name: str) -> str:
    """The whole sentence that a promise stands for; empty if there is none."""
    begin = PROMISES.get(name)
    rows = GUARANTEES.read_text().splitlines() if begin else []
    return next((row.split("|")[1].strip() for row in rows if begin and row.startswith("|") and begin in row), "")


class PromiseBroken(Exception):
    def __init__(self, name: str, facts: str) -> None:
        super().__init__(f"{name}: {facts}")
        self.name = name
        self.facts = facts


IGNORED: set[str] = set()
"""Looked past, to find what else is broken behind a defect that is known."""


def broken(name: str, facts: str) -> None:
    if name not in IGNORED:
        raise PromiseBroken(name, facts)
