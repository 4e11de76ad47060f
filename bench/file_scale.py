"""Measures the memory of a file sweep in process, and how much faster its listing is in parallel.

Keys are listed from prepared pages, in a process of its own; nine in ten are in use, known by their fingerprints as from the
manifest cache. What is measured is everything between marking and the list of what may go. `--objects 10000000` takes that
many.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import NamedTuple

from bench.context import Context
from bench.measures import Measure
from bench.prepared_s3 import key_of, prepared_s3
from headwater.persistence.store import open_store
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.marks.content_marks import ContentMarks, MarkedManifest
from headwater.streaming.files.marks.manifest_marks import marks_of
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.candidates import Judgement
from headwater.streaming.files.sweep.executors import ListWork, MarkWork
from headwater.streaming.files.sweep.file_safeguards import ALL_ON
from headwater.streaming.files.sweep.local_executor import LocalMarks
from headwater.streaming.files.sweep.roots import Root

TITLE = "Files: memory of a sweep in process, and listing in parallel"
FILES_OF_MANIFEST = 10_000
THREADS, SHARES = 8, 64
LISTED_KEYS, LATENCY_SECONDS = 100_000, 0.2
MEMORY_MEBIBYTES, LIVE_BYTES, CONDEMNED_BYTES = 100, 24, 16
"""The limit: so much, and so many bytes for each file in use and for each that may go."""
MEBIBYTE = 1024 * 1024
ROOT = Root(location="s3://lake/", realm="bench", catalog="lake", catalog_id=1)
SALT = bytes(16)


class Swept(NamedTuple):
    live: int
    condemned: int
    peak_bytes: int
    """Above what the process had before."""
    core_seconds: float


def run(context: Context) -> Iterator[Measure]:
    yield from _in_parallel(context)
    for keys in context.objects:
        subject = f"{keys:,} keys"
        process = multiprocessing.get_context("spawn").Pool(1)
        with context.console.status(f"sweeping {subject} …"), prepared_s3(keys) as endpoint, process:
            swept = process.apply(_swept, (endpoint, keys))
        allowed = MEMORY_MEBIBYTES + (LIVE_BYTES * swept.live + CONDEMNED_BYTES * swept.condemned) / MEBIBYTE
        yield Measure("file-scale", subject, "memory", swept.peak_bytes / MEBIBYTE, "MiB")
        yield Measure(
            "file-scale", subject, "memory, against what the design allows", swept.peak_bytes / MEBIBYTE / allowed, "×"
        )
        yield Measure("file-scale", subject, "marked, listed and judged", swept.core_seconds, "core s")


def _in_parallel(context: Context) -> Iterator[Measure]:
    seconds: dict[int, float] = {}
    with context.console.status("listing in parallel …"), prepared_s3(LISTED_KEYS, LATENCY_SECONDS) as endpoint:
        operations = _operations(endpoint)
        for threads in (1, THREADS):
            started = time.perf_counter()
            listed = sum(len(page) for page in operations.pages(ROOT.location, threads=threads, shares=SHARES))
            if listed != LISTED_KEYS:
                raise AssertionError(f"{listed} keys were listed")
            seconds[threads] = time.perf_counter() - started
    subject = f"{LISTED_KEYS:,} keys, {LATENCY_SECONDS * 1_000:g} ms a page"
    for threads, took in seconds.items():
        yield Measure("file-scale", subject, f"listed, {threads} threads", took, "s")
    yield Measure("file-scale", subject, f"listed, {THREADS} threads against one", seconds[THREADS] / seconds[1], "× time")


def _operations(endpoint: str) -> FileOperations:
    options = {"s3.endpoint": endpoint, "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
    return FileOperations(Storages(options))


def _swept(endpoint: str, keys: int) -> Swept:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    with open_store("memory://", create=True) as store:
        marks = LocalMarks(
            MarkWork(
                store=store,
                operations=_operations(endpoint),
                clock=store.clock,
                salt=SALT,
                roots=(ROOT.place,),
                accept_missing=(),
                safeguards=ALL_ON,
                threads=THREADS,
                progress=lambda _what, _count: None,
            )
        )
        live = _mark(marks, keys)
        marks.finish()
        now = time.time_ns() // 1_000
        judgement = Judgement(salt=SALT, older_than=now, safeguards=ALL_ON)
        listing = marks.list(ListWork(root=ROOT, judgement=judgement, listed_at=now, threads=THREADS, shares=SHARES))
        gone, condemned = listing.prove(), len(listing.counts.candidates)
        if gone or listing.counts.live != live or condemned != keys - live:
            raise AssertionError(f"{listing.counts.live} of {live} are in use, {condemned} may go, {len(gone)} are gone")
        listing.close()
        marks.close()
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1_024
    return Swept(live, condemned, peak, time.process_time() - started)


def _mark(marks: LocalMarks, keys: int) -> int:
    live, ids = 0, marks.live._ids
    if ids is None:
        raise AssertionError("the filter is made already")
    for first in range(0, keys, FILES_OF_MANIFEST):
        numbers = range(first, min(first + FILES_OF_MANIFEST, keys))
        named = [f"{ROOT.location}{key_of(number, keys)}" for number in numbers if number % 10]
        manifest = MarkedManifest(ManifestRef(f"{ROOT.location}m{first}.avro", 1), marks_of(named, SALT))
        marks.live._add(ContentMarks(files=[], manifests=[manifest]), ids)
        live += len(named)
    return live
