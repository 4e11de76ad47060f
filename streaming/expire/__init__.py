"""Raises the floors of histories, by retention policies, rules and pins.

Read retention, retention_policies, pins, branch_pins, readers, expire.
"""
