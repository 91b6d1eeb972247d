"""Writing with Spark: rows become records, each micro-batch and each batch write as one atomic batch of the log."""
