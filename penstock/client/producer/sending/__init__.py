"""The way of batches out of a producer: who sends what to which broker, and how each ends. Not here: their filling."""
