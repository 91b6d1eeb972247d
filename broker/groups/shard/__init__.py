"""The core of one partition of `__consumer_offsets`: every group in it, of both protocols, and their offsets."""
