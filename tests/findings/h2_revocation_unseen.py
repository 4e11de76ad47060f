"""A right that a process with a clock 7 s behind revoked must no longer be allowed in another process.

Exits 1 while the defect is there, 0 when it is not. Run from the project's root: .venv/bin/python tests/findings/h2_revocation_unseen.py
"""

import os
import sys
import tempfile
import time

import headwater
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.service.auth.rights.realm_rights import RealmRights

p = os.path.join(tempfile.mkdtemp(), "x.db")
url = f"sqlite:///{p}"
M = WriteMeta("admin")
A = headwater.open(url, create=True)
A.ensure_realm()
kA = A.realm().kernel
pr = Principals(kA).create("eve", with_secret=False, meta=M).principal
principal_roles(kA).create("r", properties={}, meta=M)
principal_roles(kA).assign("eve", "r", meta=M)
realm_grants(kA).grant("r", Right.REALM_MANAGE, meta=M)
B = headwater.open(url)
kB = B.realm().kernel
w = HeadWatch(kB)
rights = RealmRights(kB, w)
ok = lambda: rights.roles("eve", pr.id, ()).held.allows(Right.REALM_MANAGE)
print("B: eve may manage the realm:", ok())
time.sleep(8)


class Behind:
    def now_micros(self):
        return time.time_ns() // 1000 - 7_000_000

    def sleep(self, s):
        time.sleep(s)


A.store.backend._clock = Behind()
realm_grants(kA).revoke("r", Right.REALM_MANAGE, meta=M)
print("A (clock 7 s behind) acknowledged the revocation")
still_allowed = True
for _ in range(3):
    time.sleep(1.5)
    still_allowed = ok()
    print("B: eve may manage the realm:", still_allowed, "| watch fresh:", w._is_fresh())
w.close()
A.close()
B.close()
sys.exit(1 if still_allowed else 0)
