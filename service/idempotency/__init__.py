"""Runs a request with an Idempotency-Key once, and repeats its response however often it is sent.

Read request_key, run_once, expiry.
"""
