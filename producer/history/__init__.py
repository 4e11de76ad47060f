"""History of a catalog read backwards. Read lineage, commit_log, reference_log."""
