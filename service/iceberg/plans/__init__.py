"""Plans on the tables and views of a catalog, free of any transport.

Read planned_inputs, plan_operations.
"""
