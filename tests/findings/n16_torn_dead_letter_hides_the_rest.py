"""A dead letter that a full disk or a crash has torn makes every letter behind it unreadable: the next one is appended to the torn line,
and `webhook redeliver` ends at that line, each time, after it has sent the ones before again.

Guarantee: "what no receiver takes is in the dead-letter file". Here the sender's file size is bounded (RLIMIT_FSIZE), as a full disk
would; then there is room again.

Exits 1 if letters that were written whole cannot be read, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/n16_torn_dead_letter_hides_the_rest.py   (a few seconds)
(Internal names are those of the version it was found in.)
"""

import os
import resource
import signal
import sys
import tempfile

sys.path.insert(0, os.getcwd())
from pathlib import Path

import httpx

from headwater.consumers.backoff import Backoff
from headwater.consumers.webhooks.dead_letters import read_dead_letters
from headwater.consumers.webhooks.webhook_delivery import Webhook, WebhookSender
from tests.support.models.feed_histories import history

file = Path(tempfile.mkdtemp()) / "dead.jsonl"
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log, buried = history(4), []
with httpx.Client() as client:
    sender = WebhookSender(
        Webhook(url="http://127.0.0.1:9/", secrets=("whsec_" + "A" * 32,), allow_private=True, tries_max=1),
        file,
        client=client,
        make_backoff=lambda tries: Backoff(first_seconds=0.001, tries_max=tries),
    )
    for number, change in enumerate(log):
        if number == 1:  # the disk is full in the middle of the second letter
            resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 200, resource.RLIM_INFINITY))
        try:
            sender.send(change)
            buried.append(change.seq)
        except OSError as error:
            print(f"entry {change.seq}: {error}; the sender ends, is started again and sends it once more")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            sender.send(change)
            buried.append(change.seq)
found = []
try:
    for letter in read_dead_letters(file, lambda number: print(f"line {number} is torn")):
        found.append(letter.event.data.seq)
except Exception as error:
    print(type(error).__name__, str(error)[:140])
print("buried:", buried, "; read back:", found)
if found != buried:
    print("DEFECT: dead letters that were synced to disk cannot be read")
    sys.exit(1)
print("closed")
