"""One CEL pattern takes 57 ms an entry; the deadline is looked at only after 1,000 entries. Other expressions take minutes at one entry.

Exits 1 if an expression that is accepted takes a second at one entry, or a page runs far beyond its two seconds; 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/m2_filter_unbounded.py   (up to a minute)
(Internal names are those of the version it was found in.)
"""

import asyncio
import sys
import time

import httpx

from headwater.persistence.store import StoreOptions
from headwater.service.app import close_service, open_service
from headwater.service.config import ServeConfig
from headwater.service.nessie.operations.filters import COMMIT_NAMES, ENTRY_NAMES, CelFilter
from headwater.service.routes import build_gate

ENTRY_SECONDS_MAX = 1.0
PAGE_SECONDS_MAX = 15.0
"""Generous: machines differ. A page ends after two seconds; without that, 1,000 keys would take a minute."""
KEYS = 1_000
PATTERNS = (r"\pL{200}", r"\pL{700}", r"\pL{1500}", r"\w{60}\w{20}", r"(\pL{30}){40}", r"\w{30}", r"\w{12}")
OPERATIONS = [{"type": "PUT", "name": f"t{n}", "key": f"a.t{n}", "keyElements": ["a", f"t{n}"]} for n in range(30)]
EXPRESSIONS = ("operations.map(a, operations.map(b, operations)).size() > 0", "operations.map(a, operations).size() > 0")
faults = []


def evaluate(what, expression, names, values):
    begun = time.perf_counter()
    try:
        outcome = CelFilter(expression, names).matches(values)
    except Exception as error:
        outcome = f"refused: {str(error)[:60]}"
    seconds = time.perf_counter() - begun
    print(f"{what}: {seconds:.3f} s, {outcome}")
    if seconds > ENTRY_SECONDS_MAX:
        faults.append(what)


CelFilter("true", ENTRY_NAMES)  # loads the library, which is none of what is measured
for pattern in PATTERNS:
    evaluate(pattern, f"entry.key.matches(r'{pattern}')", ENTRY_NAMES, {"entry": {"key": "abc"}})
for expression in EXPRESSIONS:
    evaluate(expression, expression, COMMIT_NAMES, {"operations": OPERATIONS})


async def pages(service):
    gate = build_gate(service)
    transport = httpx.ASGITransport(app=gate, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8181", timeout=300) as client:
        content = {"type": "ICEBERG_TABLE", "metadataLocation": "s3://b/1", "snapshotId": 1, "schemaId": 0, "specId": 0}
        content["sortOrderId"] = 0
        puts = [{"type": "PUT", "key": {"elements": [f"k{n}"]}, "content": content} for n in range(KEYS)]
        body = {"commitMeta": {"message": "m"}, "operations": puts}
        (await client.post("/api/v2/trees/main/history/commit", json=body)).raise_for_status()
        for pattern in PATTERNS:
            begun = time.perf_counter()
            answer = await client.get("/api/v2/trees/main/entries", params={"filter": f"entry.key.matches(r'{pattern}')"})
            seconds = time.perf_counter() - begun
            print(f"a page of {pattern}: {answer.status_code}, {seconds:.1f} s, hasMore {answer.json().get('hasMore')}")
            if seconds > PAGE_SECONDS_MAX:
                faults.append(f"a page of {pattern}")


service, store = open_service(ServeConfig(store="memory://", store_options=StoreOptions(), dev=True))
asyncio.run(pages(service))
close_service(service, store)
if faults:
    print("DEFECT: unbounded:", faults)
    sys.exit(1)
print("closed")
