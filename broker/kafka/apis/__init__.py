"""The APIs of Kafka's protocol that a node serves: rows, and the plans that translate them."""
