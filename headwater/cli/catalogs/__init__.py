"""Commands of daily work on a catalog."""
