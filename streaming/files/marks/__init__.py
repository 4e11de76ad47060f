"""What one version of a table needs, as fingerprints: all that marking keeps of a file.

Read manifest_marks (one manifest), reach, cache_ranges, cache_proof and manifest_cache (manifests that were read before),
content_marks (one table or view), then below_roots; table_histories and forgotten_contents (tables whose history was given up).
"""
