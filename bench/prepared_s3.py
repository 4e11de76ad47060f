"""An S3 endpoint with answers that were prepared before, in a process of its own: what is measured is the client.

It lists any number of keys in pages of 1,000, with folders, and confirms every bulk deletion.
"""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE_KEYS = 1_000
PREPARED_KEYS_MAX = 400_000
"""Pages of more keys are made when they are asked for."""
FOLDERS = 30
TABLE = "shop/orders/data/"
_XML = '<?xml version="1.0" encoding="UTF-8"?>'
_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_DAY = re.compile(rf"{TABLE}day=(\d\d)/?")


@contextmanager
def prepared_s3(keys: int, latency_seconds: float = 0) -> Iterator[str]:
    """`latency_seconds` is how long a page takes, as on a real storage."""
    ports: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
    process = multiprocessing.Process(target=_serve, args=(keys, latency_seconds, ports), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ports.get()}"
    finally:
        process.terminate()
        process.join()


def key_of(number: int, keys: int) -> str:
    """In the order of numbers."""
    return f"{TABLE}day={number // per_folder(keys):02}/{number:010}-part-00000-deadbeef-0000.parquet"


def per_folder(keys: int) -> int:
    return -(-keys // FOLDERS)


def _serve(keys: int, latency_seconds: float, ports: multiprocessing.SimpleQueue[int]) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            time.sleep(latency_seconds)
            if "delimiter" in asked and _DAY.match(asked.get("prefix", "")) is None:
                self._answer(_folders(asked.get("prefix", "")))
                return
            first, last = _range(asked.get("prefix", ""), keys)
            self._answer(_page(int(asked.get("continuation-token", first)), last, keys))

        def do_POST(self) -> None:
            gone = _KEY.findall(self.rfile.read(int(self.headers["Content-Length"])))
            told = b"".join(b"<Deleted><Key>%s</Key></Deleted>" % key for key in gone)
            self._answer(f"{_XML}<DeleteResult>".encode() + told + b"</DeleteResult>")

        def _answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if keys <= PREPARED_KEYS_MAX:
        for first, last in [(0, keys), *(_range(f"{TABLE}day={day:02}/", keys) for day in range(FOLDERS))]:
            for page in range(first, last, PAGE_KEYS):
                _page(page, last, keys)
    ports.put(server.server_port)
    server.serve_forever()


def _range(prefix: str, keys: int) -> tuple[int, int]:
    """The numbers of the keys below a folder."""
    day = _DAY.match(prefix)
    if day is None:
        return 0, keys
    first = int(day[1]) * per_folder(keys)
    return min(first, keys), min(first + per_folder(keys), keys)


def _folders(prefix: str) -> bytes:
    """Those directly in a folder."""
    if prefix == TABLE:
        names = [f"day={number:02}" for number in range(FOLDERS)]
    else:
        names = [TABLE.removeprefix(prefix).partition("/")[0]]
    told = "".join(f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in names)
    return f"{_XML}<ListBucketResult><Name>lake</Name><IsTruncated>false</IsTruncated>{told}</ListBucketResult>".encode()


@lru_cache(3 * PREPARED_KEYS_MAX // PAGE_KEYS)
def _page(first: int, end: int, keys: int) -> bytes:
    last = min(first + PAGE_KEYS, end)
    is_cut = last < end
    contents = "".join(
        f"<Contents><Key>{key_of(number, keys)}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
        f'<ETag>"{number:032x}"</ETag><Size>1000</Size><StorageClass>STANDARD</StorageClass></Contents>'
        for number in range(first, last)
    )
    token = f"<NextContinuationToken>{last}</NextContinuationToken>" if is_cut else ""
    return (
        f"{_XML}<ListBucketResult><Name>lake</Name><Prefix></Prefix><KeyCount>{last - first}</KeyCount>"
        f"<MaxKeys>{PAGE_KEYS}</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}{contents}</ListBucketResult>"
    ).encode()
