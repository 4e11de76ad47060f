"""Which process publishes what, in which generation.

Read shard_leases, fair_share, generations, generation_rollover, assignment, alarms.
"""
