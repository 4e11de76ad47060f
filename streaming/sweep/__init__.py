"""Finding and deleting garbage. Read sweep, sweep_task, executors, verify."""
