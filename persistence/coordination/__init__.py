"""How processes agree through mutable rows: fences and work leases. Read realm_fence, pointer_fences, work_leases."""
