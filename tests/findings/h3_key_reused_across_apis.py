"""Another request under a remembered Idempotency-Key must be applied or refused, never answered 200 with the first one's result.

Exits 1 while the defect is there, 0 when it is not.
Run from the project's root: .venv/bin/python tests/findings/h3_key_reused_across_apis.py
"""

import asyncio
import sys

import httpx

from headwater.persistence.store import StoreOptions
from headwater.service.app import close_service, open_service
from headwater.service.config import ServeConfig
from headwater.service.idempotency.run_once import IdempotencyOptions
from headwater.service.routes import build_gate

cfg = ServeConfig(store="memory://", store_options=StoreOptions(), dev=True, idempotency=IdempotencyOptions(kept_seconds=1.0))
svc, store = open_service(cfg)
gate = build_gate(svc)


async def main():
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=gate, client=("127.0.0.1", 1)), base_url="http://127.0.0.1:8181"
    ) as c:
        K = {"Idempotency-Key": "order-42"}
        r = await c.post(
            "/feed/v1/default/commit",
            headers=K,
            json={
                "catalog": "lake",
                "operations": [
                    {"op": "put", "key": ["a"], "type": "ICEBERG_TABLE", "content": {"metadata_location": "s3://a/1"}}
                ],
                "message": "step 1",
            },
        )
        print("feed commit", r.status_code, r.json().get("commit_id", "")[:16], r.json().get("replayed"))
        body = {
            "commitMeta": {"message": "step 2"},
            "operations": [
                {
                    "type": "PUT",
                    "key": {"elements": ["b"]},
                    "content": {
                        "type": "ICEBERG_TABLE",
                        "metadataLocation": "s3://b/1",
                        "snapshotId": 1,
                        "schemaId": 0,
                        "specId": 0,
                        "sortOrderId": 0,
                    },
                }
            ],
        }
        r = across = await c.post("/api/v2/trees/main/history/commit", headers=K, json=body)
        print("nessie commit of ANOTHER table, same key:", r.status_code, r.text[:200])
        r = await c.get("/api/v2/trees/main/entries")
        print("entries:", [e["name"]["elements"] for e in r.json()["entries"]])
        # nessie alone: a key that is used again after its kept time is over
        K2 = {"Idempotency-Key": "k2"}
        body["operations"][0]["key"]["elements"] = ["c"]
        r = await c.post("/api/v2/trees/main/history/commit", headers=K2, json=body)
        print("k2 first", r.status_code)
        await asyncio.sleep(1.2)
        body["operations"][0]["key"]["elements"] = ["d"]
        r = later = await c.post("/api/v2/trees/main/history/commit", headers=K2, json=body)
        print("k2 for another commit after it expired:", r.status_code, r.text[:160])
        r = await c.get("/api/v2/trees/main/entries")
        there = [e["name"]["elements"] for e in r.json()["entries"]]
        print("entries:", there)
        swallowed = [key for key, sent in (("b", across), ("d", later)) if sent.status_code == 200 and [key] not in there]
        print("answered 200 and not done:", swallowed)
        return 1 if swallowed else 0


code = asyncio.run(main())
close_service(svc, store)
sys.exit(code)
