"""Errors enter with the languages that a caller reads; their words leave in the best of them."""
