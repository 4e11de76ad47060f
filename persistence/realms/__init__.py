"""Realms: their states, their records, and each step from CREATED to deleted.

Read realm_states, realm_records, realms, realm_init, realm_purge.
"""
