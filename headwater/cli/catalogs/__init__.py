"""Commands of daily work on a catalog.

Read catalog, commit, log, reflog, changes, snapshot, diff; then branch and tag over reference_commands; then merge and
transplant over merge_options. changes_output and commit_output print results.
"""
