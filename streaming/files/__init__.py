"""The files of tables and views on object storage: what a table needs, what is there, and how files are deleted.

Marking is strict and purging is lenient: while the files in use are collected, an unreadable manifest is an error, because its
files are unknown; while files are deleted, errors are counted and the rest continues.

Read kinds, filters, fingerprints; then formats/ (what a table references) and stores/ (list, read, delete); then limits,
batches, stats, purging; then marks/ (what a version needs, as fingerprints) and operations, which combines them; then
deleted_keys, file_groups, reach_files, sweep/ (which files retained states need) and new_roots; then spark/ (a sweep on
workers), watch/ (whether files are there, and what commits bring), tasks/ (DROP with PURGE), upkeep (both on a cadence) and
undo_run.
"""
