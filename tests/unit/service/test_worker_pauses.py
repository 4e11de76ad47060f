"""How long the garbage collector may stop a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORKER = """
import asyncio, gc, sys

from headwater.persistence.store import StoreOptions
from headwater.service.app import App
from headwater.service.config import ServeConfig


class Cell:
    def __init__(self):
        self.other = self


async def main():
    received, sent = asyncio.Queue(), asyncio.Queue()
    received.put_nowait({"type": "lifespan.startup"})
    config = ServeConfig(store=sys.argv[1], store_options=StoreOptions(), dev=True)
    worker = asyncio.ensure_future(App(config)({"type": "lifespan"}, received.get, sent.put))
    started = await sent.get()
    before, burst = gc.get_stats()[2]["collections"], [[number] for number in range(200_000)]
    whole, collected = gc.get_stats()[2]["collections"] - before, gc.get_objects()
    left = len(collected) - len(burst)
    del burst, collected
    again = [Cell() for _ in range(1_500_000)]
    del again
    print(started["type"], whole, left < gc.get_freeze_count(), gc.get_stats()[2]["collections"] > before)
    received.put_nowait({"type": "lifespan.shutdown"})
    await worker


asyncio.run(main())
"""


@pytest.fixture
def printed(tmp_path: Path) -> list[str]:
    command = [sys.executable, "-c", WORKER, f"sqlite:///{tmp_path}/lake.db"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def test_a_burst_of_requests_causes_no_collection_of_everything(printed: list[str]) -> None:
    """200,000 containers are more than ten thousand open requests have. Later there are full collections, of what is new."""
    started, full_collections, leaves_out_the_program, collects_later = printed
    assert started == "lifespan.startup.complete"
    assert full_collections == "0"
    assert leaves_out_the_program == "True" and collects_later == "True"
