"""Plans: durable leases that keep what a query reads, until it ends.

Read plan_rows, plan_counts, plans, plan_pins, snapshot_removals.
"""
