"""64-bit Snowflake ids under a leased node number. Read snowflake, node_leases, id_generator."""
