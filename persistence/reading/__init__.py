"""Reading a pointer: entries after a cursor, the state at an entry, moves of the head.

Read pointer_log, state, head_watch, request_lookup.
"""
