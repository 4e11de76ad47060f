"""An S3 endpoint with answers that were prepared before, in a process of its own: what is measured is the client.

It lists any number of keys in pages of 1,000, and confirms every bulk deletion.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE_KEYS = 1_000
_XML = '<?xml version="1.0" encoding="UTF-8"?>'
_KEY = re.compile(rb"<Key>([^<]*)</Key>")


@contextmanager
def prepared_s3(keys: int) -> Iterator[str]:
    ports: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
    process = multiprocessing.Process(target=_serve, args=(keys, ports), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ports.get()}"
    finally:
        process.terminate()
        process.join()


def key_of(number: int) -> str:
    return f"shop/orders/data/day={number % 30:02}/{number:010}-part-00000-deadbeef-0000.parquet"


def _serve(keys: int, ports: multiprocessing.SimpleQueue[int]) -> None:
    pages = [_page(first, keys) for first in range(0, keys, PAGE_KEYS)]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            token = parse_qs(urlsplit(self.path).query).get("continuation-token", ["0"])[0]
            self._answer(pages[int(token)])

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
    ports.put(server.server_port)
    server.serve_forever()


def _page(first: int, keys: int) -> bytes:
    last = min(first + PAGE_KEYS, keys)
    is_cut = last < keys
    contents = "".join(
        f"<Contents><Key>{key_of(number)}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
        f'<ETag>"{number:032x}"</ETag><Size>1000</Size><StorageClass>STANDARD</StorageClass></Contents>'
        for number in range(first, last)
    )
    token = f"<NextContinuationToken>{last // PAGE_KEYS}</NextContinuationToken>" if is_cut else ""
    return (
        f"{_XML}<ListBucketResult><Name>lake</Name><Prefix></Prefix><KeyCount>{last - first}</KeyCount>"
        f"<MaxKeys>{PAGE_KEYS}</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}{contents}</ListBucketResult>"
    ).encode()
