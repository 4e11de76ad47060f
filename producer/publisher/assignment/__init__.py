"""Which process publishes which shard, and in which generation of topics.

Read shard_leases, fair_share, generations, generation_rollover, assignment, alarms.
"""
