"""The bytes of a range of offsets, without a consumer's positions: for Spark."""
