"""One CEL pattern takes 57 ms an entry; the deadline is looked at only after 1,000 entries.

Run from the project's root: .venv/bin/python tests/findings/m2_filter_unbounded.py  (internal names are those of the version it was found in.)
"""

import asyncio
import time

import httpx
from starlette.routing import Router

from headwater.persistence.store import StoreOptions
from headwater.service.app import close_service, open_service
from headwater.service.config import ServeConfig
from headwater.service.feed.feed_endpoint import FeedEndpoint
from headwater.service.nessie.nessie_endpoint import nessie_routes
from headwater.service.nessie.operations.filters import ENTRY_NAMES, CelFilter

for pat in (r"\pL{200}", r"\pL{700}", r"\pL{1500}", r"\w{60}\w{20}", r"(\pL{30}){40}"):
    ex = f"entry.key.matches(r'{pat}')"
    try:
        f = CelFilter(ex, ENTRY_NAMES)
        t = time.perf_counter()
        try:
            f.matches({"entry": {"key": "abc"}})
            w = "ok"
        except Exception as e:
            w = str(e)[:80]
        print(pat, round(time.perf_counter() - t, 3), "s", f._cost.steps(1), w)
    except Exception as e:
        print(pat, "refused", str(e)[:80])
svc, store = open_service(ServeConfig(store="memory://", store_options=StoreOptions(), dev=True))
door = FeedEndpoint(svc, Router([*nessie_routes(svc)]))


async def main():
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=door, client=("127.0.0.1", 1)), base_url="http://127.0.0.1:8181", timeout=60
    ) as c:
        ops = [
            {
                "type": "PUT",
                "key": {"elements": [f"k{i}"]},
                "content": {
                    "type": "ICEBERG_TABLE",
                    "metadataLocation": "s3://b/1",
                    "snapshotId": 1,
                    "schemaId": 0,
                    "specId": 0,
                    "sortOrderId": 0,
                },
            }
            for i in range(40)
        ]
        r = await c.post("/api/v2/trees/main/history/commit", json={"commitMeta": {"message": "m"}, "operations": ops})
        print(r.status_code)
        worst = 0

        async def beat():
            nonlocal worst
            while True:
                t = time.perf_counter()
                await asyncio.sleep(0.01)
                worst = max(worst, time.perf_counter() - t - 0.01)

        b = asyncio.ensure_future(beat())
        t = time.perf_counter()
        r = await c.get("/api/v2/trees/main/entries", params={"filter": r"entry.key.matches(r'\pL{200}')"})
        b.cancel()
        print(
            "40 entries:",
            r.status_code,
            round(time.perf_counter() - t, 1),
            "s; event loop stalled up to",
            worst,
            "s; hasMore",
            r.json().get("hasMore"),
        )


asyncio.run(main())
close_service(svc, store)
