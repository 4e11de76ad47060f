"""Checked Changes from any transport. Read transport, chain, positions, reader; then http_poll, sse, local_feed."""
