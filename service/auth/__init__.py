"""Requests enter with or without a token; who calls leaves, what the caller may do, and what was denied."""
