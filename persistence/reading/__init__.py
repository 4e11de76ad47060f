"""Reading a pointer: the entries after a cursor, the state at an entry, moves of the head.

Read pointer_log, state, head_watch, moved_pointers, request_lookup.
"""
