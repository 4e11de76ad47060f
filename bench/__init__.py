"""Measures rates and costs by suite, as tables and as one JSON file. Tests never assert these numbers."""
