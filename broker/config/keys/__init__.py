"""The tables of the keys that a node has, and of Kafka's that it lacks. Not here: reading them; rules between them."""
