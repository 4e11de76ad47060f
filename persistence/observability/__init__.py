"""Observers enter when a store is opened; what the engine does leaves as metrics and spans. Without any, nothing is loaded."""
