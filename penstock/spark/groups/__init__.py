"""Consumer groups and Spark: a stream commits where it stands, for tools that look at groups, and may begin there."""
