"""Which files the retained states of a store need, whether they are there, and the sweep of all others.

Read retained_contents, marking, verify_files; then file_safeguards, store_marks, roots, condemned_files, claims, live_files,
candidates, proof, asked_files, doomed, file_groups and file_sweep.
"""
