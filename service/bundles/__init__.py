"""What a query planner must know of relations, free of any transport.

Read relation_types, relation_names, builtins, relations.
"""
