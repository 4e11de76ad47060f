"""Commands that read, publish and audit the feed."""
