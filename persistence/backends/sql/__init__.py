"""Rows enter; SQL on one connection leaves. What SQLite and PostgreSQL share: tables, statements, splits, input checks."""
