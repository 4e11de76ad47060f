"""What the Nessie API does, free of HTTP.

Read catalog_view, entries, history, diffs, commits, merges; then reference_facts, recent_heads, key_ranges, repository_config;
then filters, filter_cost, pattern_cost, cel_values.
"""
