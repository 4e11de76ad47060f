"""Random bytes that are drawn in advance are still never given out twice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from headwater.producer.random_ids import DRAWN_BYTES, RandomBytes, random_bytes


def test_threads_never_get_the_same_bytes() -> None:
    source = RandomBytes()
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda _: source.take(16), range(5_000)))
    assert len(set(taken)) == 5_000 and all(len(one) == 16 for one in taken)


def test_random_bytes_have_any_requested_length() -> None:
    for count in (0, 1, 16, DRAWN_BYTES, DRAWN_BYTES + 1, 3):
        assert len(random_bytes(count)) == count


def test_a_forked_process_does_not_repeat_its_parent() -> None:
    random_bytes(16)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, random_bytes(16))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 16)
    os.close(read)
    os.close(write)
    assert len(theirs) == 16 and theirs != random_bytes(16)
