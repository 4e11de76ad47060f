"""A merge replaces a table by a view; readers filtered by type or content id never learn that the table is gone.

Run from the project's root: .venv/bin/python tests/findings/m1_filter_hides_drop.py  (internal names are those of the version it was found in.)
"""

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


print("types=ICEBERG_TABLE :", seen(Filter(types=("ICEBERG_TABLE",))))
print("content_id of table :", seen(Filter(content_ids=(id1,))))
print("state now:", [(e.key, e.type) for e in lake.snapshot("main")])
E.close()
