"""How processes agree through rows. Read cas_rows, realm_fence, pointer_writes, pointer_fences, work_leases."""
