"""Authentication at Kafka's door: SASL, the users that it asks for, and delegation tokens, which are refused."""
