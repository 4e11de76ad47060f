"""Pointer moves and typed objects enter; rows leave. Backends are thin, semantics live here once."""
