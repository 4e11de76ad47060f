"""Content types of a catalog, and the contents at an entry. Read content_types, snapshots."""
