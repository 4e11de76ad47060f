"""Raising floors by retention rules and pins. Read retention, pins, branch_pins, readers, expire."""
