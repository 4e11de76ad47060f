"""The stream application: keeps the retained sets of all realms current and maintains the store, in one process.

Read stream_status, stream_app, realm_updates.
"""
