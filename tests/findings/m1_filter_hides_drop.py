"""A merge replaces a table by a view; readers filtered by type or content id never learn that the table is gone.

Exits 1 if a filtered reader is not shown the change that ends the table, 0 otherwise.
Run from the project's root: .venv/bin/python tests/findings/m1_filter_hides_drop.py
(Internal names are those of the version it was found in.)
"""

import sys

import headwater
from headwater import Delete, Filter, IcebergTable, Put
from headwater.producer.content.content_types import IcebergView

E = headwater.open("memory://", create=True)
lake = E.ensure_realm().ensure_catalog("lake")
main = lake.branch()
main.commit([Put(("t",), IcebergTable("s3://t/1"))])
first = list(main.changes())[-1]
id1 = first.operations[0].content_id
lake.create_branch("f")
f = lake.branch("f")
f.commit([Delete(("t",))])
f.commit([Put(("t",), IcebergView("s3://v/1", version_id=1, schema_id=0))])
r = lake.merge("f", "main")
print("merge op:", [(o.op, o.type, o.content_id[:8], o.before, o.after) for o in r.change.operations], "table id was", id1[:8])
ptr = "cat/1/heads/main"
feed = E.realm().feed


def seen(flt):
    page = feed.page(ptr, feed.start(ptr, "earliest"), filter=flt, limit=100)
    return [(c.seq, c.kind.value, [(o.op.value, o.type) for o in c.operations]) for c in page.frame.changes]


shown = {
    "by type ICEBERG_TABLE": seen(Filter(types=("ICEBERG_TABLE",))),
    "by the table's content id": seen(Filter(content_ids=(id1,))),
}
for how, changes in shown.items():
    print(f"{how}: {changes}")
print("state now:", [(e.key, e.type) for e in lake.snapshot("main")])
E.close()
hidden = [how for how, changes in shown.items() if r.seq not in [seq for seq, _, _ in changes]]
if hidden:
    print("DEFECT: the end of the table is hidden from readers filtered", hidden)
    sys.exit(1)
print("closed")
