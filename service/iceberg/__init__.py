"""Requests of the Iceberg REST specification enter; catalog commits, metadata files and answers in its shapes leave."""
