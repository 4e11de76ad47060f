"""The promises that are checked: each has a name and quotes its sentence of docs/guarantees.md."""

from __future__ import annotations

PROMISES = {
    "chain": (
        "Writers of one pointer lose nothing, double nothing and reorder nothing, in threads and in processes of "
        "their own, and none of them starves."
    ),
    "request-once": "One request id is one entry: in a batch, in a process, in several, after a restart.",
    "acknowledged": (
        "Every acknowledged commit is in the log once after a kill -9 of the committing process; no half commit shows."
    ),
    "merge": "A merge is the three-way merge of both sides since all that they share, also behind crosswise merges.",
    "state": (
        "After a sweep exactly what the kept states reach is there, and each of those states is what it was; "
        "counters say what happened."
    ),
    "notice": "A follower is woken at once by commits of its own process, and notices those of others.",
    "cursor": "A consumer that is killed -9 and started again with its cursor neither skips nor doubles a Change.",
    "same-log": (
        "Poll, events, Kafka and an exported file give the log of every pointer: all fields, none missing, none "
        "twice, in order."
    ),
    "group": (
        "A Kafka group goes on behind what it acknowledged; what it had not acknowledged comes again, and nothing "
        "is missing when partitions are dealt out anew."
    ),
    "topic-loss": "What a topic has lost is said to its readers, never passed over.",
    "webhook": (
        "A webhook reaches no private address unless that is allowed, and what no receiver takes is in the dead-letter file."
    ),
    "tables": "Kafka: the topic of the newest state per table equals the snapshots, and dropped tables leave tombstones.",
    "pins": "No floor passes a subscription, the publisher, a registered job or a live branch's merge base.",
    "superseded": "An expiry that was superseded, by an export that pins what it reads, raises no more floors.",
    "archive": (
        "An archive holds each Change once and without a gap, and replays to the states that the store has; a "
        "state whose history was cut is refused."
    ),
    "retained": (
        "A retained set of another history (a store that was put back to a backup and went on) is refused though "
        "it reaches every head, and seeded again."
    ),
    "goes-on": "",
}
"""`goes-on` is the simulation's own: when all faults have ended, every worker gets through again."""


class PromiseBroken(Exception):
    def __init__(self, name: str, facts: str) -> None:
        super().__init__(f"{name}: {facts}")
        self.name = name
        self.facts = facts
        self.sentence = PROMISES[name]


IGNORED: set[str] = set()
"""Looked past, to find what else is broken behind a defect that is known."""


def broken(name: str, facts: str) -> None:
    if name not in IGNORED:
        raise PromiseBroken(name, facts)
