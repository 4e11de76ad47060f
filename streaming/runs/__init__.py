"""Maintenance runs: one at a time, recorded and counted.

Read runs, run_counts, run_totals, schedule_turns, realm_sets.
"""
