"""Signed HTTP calls for Changes. Read webhook_signing, webhook_addresses, webhook_delivery."""
