"""Stand-ins for `threading`, `time`, `random`, `secrets`, `uuid` and executors, which stop at the scheduler's yield points.

They replace these names in the product's modules, in a process of its own: the product's code itself runs as it is.
"""

from __future__ import annotations

import functools
import os
import random
import secrets
import sys
import threading
import time
import types
import uuid
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.simulation.runtime.scheduler import START_MICROS, Killed, Scheduler

CHANCES = ("random", "uniform", "randrange", "randint", "choice", "choices", "sample", "shuffle", "getrandbits", "expovariate")
"""What the product may ask of the module `random` itself."""

LOCK, RLOCK = type(threading.Lock()), type(threading.RLock())

_running: Scheduler | None = None
_chance = random.Random(0)


def use(scheduler: Scheduler | None, seed: int = 0) -> None:
    global _running, _chance
    _running, _chance = scheduler, random.Random(f"virtual {seed}")


def scheduler() -> Scheduler:
    assert _running is not None
    return _running


def _inside() -> bool:
    return _running is not None and _running.is_inside


# ── threading ───────────────────────────────────────────────────────────────────────────────────────────────


class VirtualLock:
    def __init__(self) -> None:
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        while self._held:
            if not blocking or not _inside():
                return False
            if not scheduler().wait(self, None if timeout < 0 else timeout) and timeout >= 0:
                return False
        self._held = True
        return True

    def release(self) -> None:
        self._held = False
        if _running is not None:
            _running.wake(self)

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualRLock:
    def __init__(self) -> None:
        self._owner: object | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = threading.current_thread()
        while self._owner not in (None, me):
            if not blocking or not _inside():
                return False
            if not scheduler().wait(self, None if timeout < 0 else timeout) and timeout >= 0:
                return False
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            if _running is not None:
                _running.wake(self)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualSemaphore:
    def __init__(self, value: int = 1) -> None:
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        while self._value <= 0:
            if not blocking or not _inside():
                return False
            if not scheduler().wait(self, timeout) and timeout is not None:
                return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        self._value += n
        if _running is not None:
            _running.wake(self)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class PerProcess:
    """In the place of a lock that a module keeps for its process: simulated processes share modules, never locks."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._by_process: weakref.WeakKeyDictionary[object, Any] = weakref.WeakKeyDictionary()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mine(), name)

    def __enter__(self) -> Any:
        return self._mine().__enter__()

    def __exit__(self, *details: object) -> None:
        self._mine().__exit__(*details)

    def _mine(self) -> Any:
        process = scheduler().process if _inside() else self._make
        if process not in self._by_process:
            self._by_process[process] = self._make()
        return self._by_process[process]


class VirtualEvent:
    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        if _running is not None:
            _running.wake(self)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            scheduler().wait(self, timeout)
        return self._set


class VirtualThread:
    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str = "",
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name = name
        self._target, self._args, self._kwargs = target, tuple(args), kwargs or {}
        self._started = self._ended = False

    def start(self) -> None:
        self._started = True
        scheduler().spawn(scheduler().process, self.name, self._run)

    def _run(self) -> None:
        try:
            if self._target is not None:
                self._target(*self._args, **self._kwargs)
        finally:
            self._ended = True
            scheduler().wake(self)

    def is_alive(self) -> bool:
        return self._started and not self._ended

    def join(self, timeout: float | None = None) -> None:
        if not self._ended and self._started:
            scheduler().wait(self, timeout)


class VirtualExecutor:
    """Each call is a task; the product's pools are wider than what a simulation submits."""

    def __init__(self, *_: object, **__: object) -> None:
        self._threads: list[VirtualThread] = []

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(call(*args, **kwargs))
            except Killed:
                raise
            except BaseException as error:
                future.set_exception(error)

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = VirtualThread(target=run, name="pool")
        self._threads.append(thread)
        thread.start()
        return future

    def map(self, call: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        """One after the other: what runs side by side in one process is of no interest here."""
        return map(call, *arguments)

    def shutdown(self, wait: bool = True, **_: object) -> None:
        for thread in self._threads if wait else ():
            thread.join()

    def __enter__(self) -> VirtualExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────


def monotonic() -> float:
    """Untouched by jumps of the wall clock."""
    return (scheduler().now - START_MICROS) / 1e6 + 1_000 if _running is not None else time.monotonic()


def wall_micros() -> int:
    current = scheduler()
    return current.now + (current.process.skew_micros if current.is_inside else 0)


def sleep(seconds: float) -> None:
    scheduler().sleep(seconds)


class VirtualClock:
    """What a store of a simulated process is opened with."""

    def now_micros(self) -> int:
        return wall_micros()

    def sleep(self, seconds: float) -> None:
        sleep(seconds)


async def sleep_async(seconds: float, result: object = None) -> object:
    sleep(seconds)
    return result


# ── modules ─────────────────────────────────────────────────────────────────────────────────────────────────


def _like(real: types.ModuleType, **replaced: object) -> types.ModuleType:
    stand_in = types.ModuleType(f"simulated_{real.__name__}")
    stand_in.__dict__.update({name: value for name, value in vars(real).items() if not name.startswith("__")}, **replaced)
    return stand_in


def _make_random(*seed: Any) -> random.Random:
    return random.Random(*seed) if seed else random.Random(_chance.random())


def _process_id() -> int:
    return zlib.crc32(scheduler().process.name.encode()) % 30_000 if _inside() else os.getpid()


def _token_bytes(count: int = 32) -> bytes:
    return _chance.randbytes(count)


def _drawn(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: getattr(_chance, name)(*args, **kwargs)


def _modules() -> dict[types.ModuleType, types.ModuleType]:
    import asyncio

    return {
        threading: _like(
            threading,
            Lock=VirtualLock,
            RLock=VirtualRLock,
            Semaphore=VirtualSemaphore,
            Event=VirtualEvent,
            Thread=VirtualThread,
        ),
        time: _like(
            time,
            monotonic=monotonic,
            perf_counter=monotonic,
            sleep=sleep,
            time=lambda: wall_micros() / 1e6,
            time_ns=lambda: wall_micros() * 1_000,
        ),
        random: _like(random, Random=_make_random, **{name: _drawn(name) for name in CHANCES}),
        secrets: _like(
            secrets,
            token_hex=lambda count=32: _chance.randbytes(count).hex(),
            token_bytes=_token_bytes,
            token_urlsafe=lambda count=32: _chance.randbytes(count).hex(),
            randbits=lambda bits: _chance.getrandbits(bits),
            randbelow=lambda below: _chance.randrange(below),
            choice=lambda choices: _chance.choice(choices),
        ),
        uuid: _like(uuid, uuid4=lambda: uuid.UUID(bytes=_chance.randbytes(16), version=4)),
        os: _like(os, urandom=lambda count: _chance.randbytes(count), fsync=lambda _: None, getpid=_process_id),
        asyncio: _like(asyncio, sleep=sleep_async),
    }


def _functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    for value in list(vars(module).values()):
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from (member for member in vars(value).values() if isinstance(member, types.FunctionType))


def install(classes: dict[type, type]) -> None:
    """In every module of the product that is loaded now: modules by their names, and each of their functions wherever it was
    taken out (`from time import sleep`, an argument's default `chance=random.random`). ⚠ One that is left is real time or real
    chance: a seed is then no longer one trace. `classes` are replaced as well: clients of Kafka."""
    modules = _modules()
    values: dict[int, object] = {
        id(vars(real)[key]): vars(stand_in)[key]
        for real, stand_in in modules.items()
        for key in vars(real)
        if vars(stand_in).get(key) is not vars(real)[key] and not key.startswith("__")
    }
    values[id(ThreadPoolExecutor)] = VirtualExecutor
    values.update({id(real): stand_in for real, stand_in in classes.items()})
    for name, module in list(sys.modules.items()):
        if not name.startswith("headwater"):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, types.ModuleType) and value in modules:
                setattr(module, key, modules[value])
            elif id(value) in values:
                setattr(module, key, values[id(value)])
            elif isinstance(value, (LOCK, RLOCK)):
                setattr(module, key, PerProcess(VirtualLock if isinstance(value, LOCK) else VirtualRLock))
            elif isinstance(value, threading.Semaphore):
                setattr(module, key, PerProcess(functools.partial(VirtualSemaphore, value._value)))
        for function in _functions(module):
            if function.__defaults__:
                function.__defaults__ = tuple(values.get(id(value), value) for value in function.__defaults__)
            for key, value in (function.__kwdefaults__ or {}).items():
                function.__kwdefaults__[key] = values.get(id(value), value)
