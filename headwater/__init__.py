"""Headwater: the change feed that begins at your catalog's HEAD. The public face; all else is private to the project."""

from __future__ import annotations

__version__ = "0.1.0"
