"""Plans on the tables and views of a catalog, free of any transport.

Read planned_inputs, view_sql, view_relations, view_expansion, plan_obligations, plan_operations.
"""
