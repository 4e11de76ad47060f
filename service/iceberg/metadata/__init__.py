"""Table metadata, updates and requirements enter as plain JSON values; new table metadata leaves. No files, no branches."""
