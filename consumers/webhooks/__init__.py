"""Posts Changes to HTTP endpoints, signed, in order and with retries.

Read webhook_signing, cloud_event, webhook_addresses, webhook_delivery, dead_letters, webhook_run.
"""
