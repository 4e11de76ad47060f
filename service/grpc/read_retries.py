"""Reads that the store could not answer are tried again, a few times and within the deadline of the call.

Writes are not: the lane retries commits, and a key finds what has landed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headwater.schemas.errors import StoreUnavailable
from headwater.service.grpc.call_context import CallContext

RETRIES_MAX = 4
SECONDS_LEAST, SECONDS_MOST = 0.005, 0.2

T = TypeVar("T")


async def read_again(
    context: CallContext,
    read: Callable[[], Awaitable[T]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[float, float], float] = random.uniform,
) -> T:
    """Pauses double, each with jitter. The last fault is raised, also where the deadline leaves no time for another pause."""
    longest = SECONDS_LEAST * 4
    for _ in range(RETRIES_MAX):
        try:
            return await read()
        except StoreUnavailable:
            pause = chance(SECONDS_LEAST, longest)
            if context.deadline is not None and time.monotonic() + pause >= context.deadline:
                raise
            await sleep(pause)
            longest = min(SECONDS_MOST, longest * 2)
    return await read()
