"""Options of `spark.read.format(…)` enter; rows of the log or of a store's tables leave, read on the executors."""
