"""Turns of the event loop in which requests are started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from headwater.service.gate.starts import CROWD, STARTS_IN_TURN, Starts
from tests.support.fixtures.access_rig import access_rig


def test_a_health_check_is_answered_before_a_burst_that_came_earlier_was_started(tmp_path: Path) -> None:
    """Each request of the burst never sends its body."""
    burst, reading = 20 * STARTS_IN_TURN, 0
    with access_rig(tmp_path) as rig:
        token = rig.token("alpha").encode()

        async def receive() -> dict[str, Any]:
            nonlocal reading
            reading += 1
            await asyncio.Event().wait()
            raise AssertionError("nothing comes")

        async def commit() -> None:
            await rig.gate(_scope("POST", "/feed/v1/alpha/commit", (b"authorization", b"Bearer " + token)), receive, _drop)

        async def main() -> tuple[int, int]:
            rig.gate.budgets.requests += CROWD
            stuck = [asyncio.create_task(commit()) for _ in range(burst)]
            await asyncio.create_task(rig.gate(_scope("GET", "/livez"), receive, _drop))
            before = reading
            while reading < burst:
                await asyncio.sleep(0)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            rig.gate.budgets.requests -= CROWD
            return before, rig.gate.budgets.requests

        began, left = rig.run(main())
    assert began <= 2 * STARTS_IN_TURN, "livez waited for all of them"
    assert left == 0


def test_starts_keep_their_order_and_skip_disconnected_callers() -> None:
    started: list[int] = []

    async def main() -> None:
        starts = Starts()

        async def start(number: int) -> None:
            if not starts.may_start():
                await starts.wait()
            started.append(number)

        tasks = [asyncio.create_task(start(number)) for number in range(4 * STARTS_IN_TURN)]
        await asyncio.sleep(0)
        assert len(started) == STARTS_IN_TURN
        gone = tasks[STARTS_IN_TURN]
        gone.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert starts.may_start(), "a later turn has places again"

    asyncio.run(main())
    assert started == [number for number in range(4 * STARTS_IN_TURN) if number != STARTS_IN_TURN]


def _scope(method: str, path: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [*headers, (b"content-length", b"100")] if method == "POST" else list(headers),
        "client": ("127.0.0.1", 1),
    }


async def _drop(message: Any) -> None:
    del message
