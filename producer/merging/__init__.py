"""Merge, transplant and diff: what two branches share, what one has changed since, and the commits that apply it.

Read ancestry, ancestry_queue, shared_state, logged_changes, changed_keys, three_way, apply_changes; then merge, moved_target
and transplant; then named_merges and merge_preview.
"""
