"""How many rows and bytes each realm takes, measured in the background at a bounded cost.

Read measurement, usage_records, collector.
"""
