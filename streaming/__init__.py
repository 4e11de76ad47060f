"""Changes enter; retained sets and purges leave, computed on Spark."""
