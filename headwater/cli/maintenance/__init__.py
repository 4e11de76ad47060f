"""`headwater maintain` and its sub-commands, `headwater stream`, and its executors on Kubernetes.

Read maintain, maintain_output; then maintain_sweep, maintain_archive, maintain_schedule;
then maintain_files, maintain_snapshots, table_contents, maintain_purge_files, maintain_file_tasks, maintain_undo_files,
maintain_follow_files; then stream, executor.
"""
