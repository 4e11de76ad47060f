"""Measures how a server that starts cold loads tables on S3 (moto): from metadata files, and from their copies in its store.

`python -m bench.cold_loads [TABLES]`. Each load is one request of one of four clients; every table is loaded once.
"""

from __future__ import annotations

import shlex
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

import headwater
from bench.iceberg import SCHEMA
from headwater.persistence.rows import Table
from headwater.persistence.store import open_store
from tests.support.servers.feed_server import feed_server
from tests.support.servers.moto_server import BUCKET, MotoServer, moto_server

CLIENTS = 4
BASE = "/iceberg/v1/remote/namespaces"
COPY_BYTES_MAX = "131072"


def main() -> None:
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with tempfile.TemporaryDirectory() as folder, moto_server() as moto:
        url = f"sqlite:///{folder}/lake.db"
        with headwater.open(url, create=True) as engine:
            engine.ensure_realm().create_catalog("remote", storage_root=f"s3://{BUCKET}/warehouse")
        made = {kind: _made(url, moto, kind, copies, tables) for kind, copies in (("off", "0"), ("on", COPY_BYTES_MAX))}
        for kind, seconds in made.items():
            print(f"create, copies {kind}: p50 {1e3 * statistics.median(seconds):.1f} ms, p99 {1e3 * _p99(seconds):.1f} ms")
        count, size_bytes = _copies(url)
        print(f"copies: {count}, {size_bytes} bytes in all")
        for kind, copies in (("off", "0"), ("on", COPY_BYTES_MAX)):
            seconds, whole = _loaded(url, moto, copies, tables)
            rate = tables / whole
            print(
                f"cold loads, copies {kind}: {rate:.0f}/s, p50 {1e3 * statistics.median(seconds):.1f} ms, "
                f"p99 {1e3 * _p99(seconds):.1f} ms"
            )


def _settings(moto: MotoServer, copies: str) -> dict[str, str]:
    options = shlex.join(f"{name}={value}" for name, value in moto.options.items())
    return {"storage_options": options, "metadata_copy_bytes_max": copies}


def _made(url: str, moto: MotoServer, kind: str, copies: str, tables: int) -> list[float]:
    """Seconds of each creation."""
    with feed_server(url, settings=_settings(moto, copies)) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        client.post(BASE, json={"namespace": [kind]}).raise_for_status()
        seconds = []
        for number in range(tables):
            began = time.monotonic()
            client.post(f"{BASE}/{kind}/tables", json={"name": f"t{number}", "schema": SCHEMA}).raise_for_status()
            seconds.append(time.monotonic() - began)
        return seconds


def _copies(url: str) -> tuple[int, int]:
    with open_store(url) as store:
        rows = [row for split in store.backend.splits(Table.OBJECTS, 1) for row in store.backend.scan(split)]
        copies = [row for row in rows if row.type == "metadata-copy"]
        found = [store.backend.fetch_objects(row.realm, [row.id]) for row in copies]
        return len(copies), sum(len(one.payload) for by_id in found for parts in by_id.values() for one in parts)


def _loaded(url: str, moto: MotoServer, copies: str, tables: int) -> tuple[list[float], float]:
    with feed_server(url, settings=_settings(moto, copies)) as server, httpx.Client(base_url=server.url, timeout=60) as client:

        def load(number: int) -> float:
            began = time.monotonic()
            client.get(f"{BASE}/on/tables/t{number}").raise_for_status()
            return time.monotonic() - began

        load(0)  # opens what every later load needs
        began = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as pool:
            seconds = list(pool.map(load, range(1, tables)))
        return seconds, time.monotonic() - began


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


if __name__ == "__main__":
    main()
