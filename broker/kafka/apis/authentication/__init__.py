"""Authentication at Kafka's door: SASL, and the users that it asks for."""
