"""`headwater up`: the whole system as supervised processes of this machine.

Read system, managed, restarts, supervisor, up_lock, screen.
"""
