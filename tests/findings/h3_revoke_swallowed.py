"""A DELETE of a grant under a key used before for its PUT must not be answered 200 while the grant stays.

Exits 1 while the defect is there, 0 when it is not.
Run from the project's root: .venv/bin/python tests/findings/h3_revoke_swallowed.py
"""

import asyncio
import logging
import sys

import httpx

logging.disable(logging.CRITICAL)

from headwater.persistence.store import StoreOptions
from headwater.service.app import close_service, open_service
from headwater.service.config import ServeConfig
from headwater.service.idempotency.run_once import IdempotencyOptions
from headwater.service.routes import build_gate

svc, store = open_service(
    ServeConfig(store="memory://", store_options=StoreOptions(), dev=True, idempotency=IdempotencyOptions(kept_seconds=1.0))
)
gate = build_gate(svc)


async def main():
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=gate, client=("127.0.0.1", 1)), base_url="http://127.0.0.1:8181"
    ) as c:
        u = "/manage/v1/default/principal-roles"
        r = await c.post(u, json={"name": "r1"})
        r = await c.put(u + "/r1/grants/realm.manage", headers={"Idempotency-Key": "change-1"})
        print("grant", r.status_code, r.json()["meta"]["replayed"])
        await asyncio.sleep(1.2)  # kept_seconds (24 h by default) is over
        r = revoked = await c.delete(u + "/r1/grants/realm.manage", headers={"Idempotency-Key": "change-1"})
        print("revoke, same key after its time:", r.status_code, r.text[:220])
        r = await c.get(u + "/r1/grants")
        print("grants now:", r.json())
        return 1 if revoked.status_code == 200 and r.json()["grants"] else 0


code = asyncio.run(main())
close_service(svc, store)
sys.exit(code)
