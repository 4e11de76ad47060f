"""Which files the retained states of a store need, and the sweep of all others.

Read retained_contents, marking; then file_safeguards, store_marks, roots, condemned_files, claims, live_files, candidates,
proof, asked_files, doomed, executors, local_executor and file_sweep.
"""
