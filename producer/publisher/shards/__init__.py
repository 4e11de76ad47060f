"""The protocol of one shard.

Read shard_states, shard_context, shard, batches, heads, shard_pins, fault_points.
"""
