"""Suites of measurements enter by name; tables and one JSON file of rates and costs leave. Tests never assert these."""
