"""How processes agree through mutable rows: fences, work leases, and the incarnation of a store.

Read cas_rows, realm_fence, pointer_writes, pointer_fences, work_leases, removal_intents, location_reservations,
registered_tables, claimed_removals; then incarnation, restore_watch, restored_store.
"""
