"""Requests with an Idempotency-Key enter; each is done once, and answered the same however often it is sent."""
