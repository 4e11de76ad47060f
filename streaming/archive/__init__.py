"""The archive and replays from it. Read archive, archive_targets, replay."""
