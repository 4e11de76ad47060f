"""64-bit Snowflake ids, generated under a leased node number.

Read snowflake, node_leases, id_generator.
"""
