"""A click-stream of a web shop, made from a seed, and the right answers for it."""
