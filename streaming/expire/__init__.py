"""Raises the floors of histories, by retention rules and pins.

Read retention, pins, branch_pins, readers, expire.
"""
