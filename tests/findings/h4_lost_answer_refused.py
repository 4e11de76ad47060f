"""A request whose answer was lost must be answered as done, also when 1,010 other commits have come since.

Exits 1 while the defect is there, 0 when it is not.
Run from the project's root: .venv/bin/python tests/findings/h4_lost_answer_refused.py
"""

import asyncio
import logging
import os
import sys

import httpx

logging.disable(logging.CRITICAL)
import tempfile

from headwater import IcebergTable, Put
from headwater.persistence.records.idempotency_rows import IdempotencyRows
from headwater.persistence.store import StoreOptions
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.service.app import close_service, open_service
from headwater.service.config import ServeConfig
from headwater.service.idempotency.run_once import IdempotencyOptions
from headwater.service.routes import build_gate

p = os.path.join(tempfile.mkdtemp(), "x.db")


def worker():
    svc, store = open_service(
        ServeConfig(
            store=f"sqlite:///{p}?synchronous=NORMAL",
            store_options=StoreOptions(),
            dev=True,
            idempotency=IdempotencyOptions(running_seconds=0.5),
        )
    )
    return svc, store, build_gate(svc)


A = worker()
B = worker()


def client(w):
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=w[2], client=("127.0.0.1", 1)), base_url="http://127.0.0.1:8181", timeout=60
    )


async def go(n):
    async with client(A) as a, client(B) as b:
        K = {"Idempotency-Key": f"key-{n}"}
        body = {"namespace": [f"ns{n}"], "properties": {"x": "1"}}
        real = IdempotencyRows.finish
        IdempotencyRows.finish = lambda *_: False  # worker A dies between commit and answer
        r = await a.post("/iceberg/v1/lake/namespaces", headers=K, json=body)
        IdempotencyRows.finish = real
        print(f"[{n} others in between] worker A committed ({r.status_code}, answer lost)", end="; ")
        k = (
            A[1].kernels[-1]
            if A[1].kernels[-1].realm.startswith("default")
            else next(x for x in A[1].kernels if x.realm.startswith("default"))
        )
        for i in range(n):
            await k.committer.commit_async(
                "cat/1/heads/main", CatalogCommit(k, [Put((f"k{i % 9}",), IcebergTable(f"s3://k/{i}"))], CommitMeta("o"))
            )
        await asyncio.sleep(0.6)
        r = await b.post("/iceberg/v1/lake/namespaces", headers=K, json=body)
        print("same key at worker B:", r.status_code, r.text[:110])
        return r.status_code


async def main():
    return [await go(10), await go(1010)]


statuses = asyncio.run(main())
for w in (A, B):
    close_service(w[0], w[1])
sys.exit(0 if statuses == [200, 200] else 1)
