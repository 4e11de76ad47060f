"""Sends a large answer in pieces: at the pace of its reader, who is disconnected after reading nothing, or too little.

⚠ The server below takes a body in one piece at once, however large, and keeps it until it is read; of a body in pieces it takes
the next one when there is room.
"""

from __future__ import annotations

import asyncio

from headwater.service.http.responses import Send

SMALL_ANSWER_BYTES = 64 * 1024
"""Sent in one piece and not counted: the buffers below take it, and most answers are."""
PIECE_BYTES = 64 * 1024
READ_BYTES_A_SECOND_MIN = 32 * 1024
"""⚠ A reader who takes one piece each time just before it is given up would hold its share of the memory for hours."""


def seconds_to_read(size: int, stall_seconds: float) -> float:
    """How long an answer of that size may be on its way."""
    return stall_seconds + size / READ_BYTES_A_SECOND_MIN


async def send_in_pieces(send: Send, body: bytes, stall_seconds: float) -> bool:
    """Whether it was taken. ⚠ If not, its end is never sent, and the server below closes the connection."""
    try:
        async with asyncio.timeout(seconds_to_read(len(body), stall_seconds)):
            for start in range(0, len(body), PIECE_BYTES):
                async with asyncio.timeout(stall_seconds):
                    await send({"type": "http.response.body", "body": body[start : start + PIECE_BYTES], "more_body": True})
            async with asyncio.timeout(stall_seconds):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        return False
    return True
