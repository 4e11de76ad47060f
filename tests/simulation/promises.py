"""The promises that are checked: each has a name and a sentence of docs/guarantees.md."""

from __future__ import annotations

from pathlib import Path

PROMISES = {
    "chain": "Writers of one pointer lose nothing, double nothing and reorder nothing",
    "request-once": "One request id is one entry",
    "acknowledged": "Every acknowledged commit is in the log once",
    "merge": "A merge is the three-way merge of both sides since all that they share",
    "state": "After a sweep exactly what the kept states reach is there",
    "notice": "A follower is woken at once by commits of its own process, and notices those of others",
    "cursor": "A consumer that is killed -9 and started again",
    "same-log": "Poll, events, Kafka and an exported file give the log of every pointer",
    "webhook": "what no receiver takes is in the dead-letter file",
    "pins": "No floor passes a subscription, the publisher",
    "superseded": "An expiry that was superseded",
    "archive": "An archive holds each Change once and without a gap",
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
