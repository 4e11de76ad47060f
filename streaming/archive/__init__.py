"""An archive of all Changes, and replays from it.

Read archive, archive_targets, replay.
"""
