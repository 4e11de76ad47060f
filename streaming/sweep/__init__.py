"""Finds and deletes garbage.

Read sweep, sweep_task, executors, verify.
"""
