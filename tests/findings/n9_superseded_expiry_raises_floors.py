"""An expiry that an export has superseded continues raising floors for up to twenty seconds; a sweep that then runs takes history that
the export has pinned and is reading. The same holds for sweeps and purges: a superseded run continues until its keeper looks.

`Run.check` asks the store only when the lease has run out by the own clock, or after the keeper (every third of a minute) has seen
the loss. Guarantee: "An expiry that was superseded, by an export that pins what it reads, raises no more floors"; maintenance.md:
"A run that was superseded is cancelled within a second". The test of it calls `run.renew()` by hand at the right moment.

Exits 1 if floors rise after the export has set its pin, 0 if not, 2 if it could not run.
Run from the project's root: .venv/bin/python tests/findings/n9_superseded_expiry_raises_floors.py   (a few seconds)
(Internal names are those of the version it was found in.)
"""

import os
import sys

sys.path.insert(0, os.getcwd())
import headwater
from headwater import IcebergTable, Put
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.runs.runs import Runs

engine = headwater.open("memory://", create=True)
realm = engine.ensure_realm()
instance = engine.realms.get("default").instance
for number in range(6):
    main = realm.ensure_catalog(f"lake{number}").branch()
    for n in range(5):
        main.commit([Put((f"t{n}",), IcebergTable(f"s3://{n}"))])
store, runs, late, pinned = engine.store, Runs(engine.store.backend, engine.store.clock), [], []


def on_pointer(one):
    """Called behind each pointer. After the first floor has risen, an export takes over, just as `maintain export --supersede` does."""
    if pinned and one.expired:
        late.append((one.pointer, one.floor_before, one.floor_after))
    if not pinned and one.expired:
        with runs.run("export", supersede=run.record.id):
            RegisteredReaders(store.backend, instance, store.clock).save("export-1", {}, pin_seconds=3_600)
        pinned.append(one.pointer)


try:
    with runs.run("expire") as run:
        expire_realms(store, run, [instance], parse_retention("*=1n"), on_pointer=on_pointer)
except Exception as error:
    print("the expiry ended with", type(error).__name__, error)
print("superseded behind", pinned, "; raised afterwards:", late)
engine.close()
if late:
    print(f"DEFECT: {len(late)} floors rose although the export had superseded the expiry and pinned them")
    sys.exit(1)
if not pinned:
    print("could not run: no floor rose, so there was nothing to supersede")
    sys.exit(2)
print("closed: no floor rose behind the export")
