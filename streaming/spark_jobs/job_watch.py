"""Watches a Spark job that deletes: yields results as tasks end, and cancels it when it must stop."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
from pyspark import AccumulatorParam, InheritableThread

from headwater.streaming.spark.spark_errors import typed_errors
from headwater.streaming.sweep.sweep_task import SplitResult

LOOK_SECONDS = 0.5
CANCEL_SECONDS = 30.0
_Told = TypeVar("_Told", contravariant=True)
_Any = TypeVar("_Any")


class _Lists(AccumulatorParam[list[bytes]]):
    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        value1.extend(value2)
        return value1


class BytesAccumulator:
    """Filled by tasks on workers, read by the driver. Spark merges a task's values once, when the task has succeeded."""

    def __init__(self, context: Any) -> None:
        self._told = context.accumulator([], _Lists())

    def add(self, content: bytes) -> None:
        self._told.add([content])

    def since(self, seen: int) -> list[bytes]:
        found: list[bytes] = self._told.value[seen:]
        return found


class ResultsAccumulator:
    """What the tasks of a sweep have done, while it runs."""

    def __init__(self, context: Any) -> None:
        self._results = BytesAccumulator(context)
        self._rows = context.accumulator(0)

    def add(self, result: SplitResult) -> None:
        self._results.add(msgspec.msgpack.encode(result))

    def scanned(self, rows: int) -> None:
        self._rows.add(rows)

    def since(self, seen: int) -> list[SplitResult]:
        return [msgspec.msgpack.decode(result, type=SplitResult) for result in self._results.since(seen)]

    @property
    def rows(self) -> int:
        return int(self._rows.value)


class Results(Protocol[_Any]):
    def since(self, seen: int) -> list[_Any]: ...

    @property
    def rows(self) -> int: ...


class Watch(Protocol[_Told]):
    """Who receives the results, and decides whether to continue."""

    @property
    def before_delete(self) -> Callable[[], None]: ...

    @property
    def on_rows(self) -> Callable[[int], None]: ...

    @property
    def on_result(self) -> Callable[[_Told], None]: ...


def watched(context: Any, action: Callable[[], object], results: Results[_Any], work: Watch[_Any]) -> None:
    """`work.before_delete` is called twice a second; if it raises, the job is cancelled. Results of tasks that have ended by
    then are reported."""
    group = f"headwater-sweep-{secrets.token_hex(6)}"
    failures: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        context.setJobGroup(group, "headwater sweep", interruptOnCancel=True)
        try:
            action()
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    reported = rows = 0

    def report() -> None:
        nonlocal reported, rows
        for result in results.since(reported):
            reported += 1
            work.on_result(result)
        if results.rows > rows:
            work.on_rows(results.rows - rows)
            rows = results.rows

    work.before_delete()
    thread = InheritableThread(target=run, name="sweep-on-spark", session=None)
    thread.start()
    try:
        while not done.wait(LOOK_SECONDS):
            report()
            work.before_delete()
    except BaseException:
        context.cancelJobGroup(group)
        thread.join(CANCEL_SECONDS)
        raise
    finally:
        report()
    thread.join()
    if failures:
        with typed_errors():
            raise failures[0]
