"""A connection of Kafka's protocol: its socket, its frames, its log-in, and its requests."""
