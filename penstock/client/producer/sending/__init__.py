"""The way of batches out of a producer: which broker each is sent to, by which task, and how it ends. Not here: their
filling."""
