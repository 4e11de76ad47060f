"""Signed HTTP calls for Changes. Read webhook_signing, webhook_addresses, dead_letters, webhook_delivery."""
