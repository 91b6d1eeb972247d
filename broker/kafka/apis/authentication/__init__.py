"""Authentication at Kafka's listener: SASL, the users that it asks for, and delegation tokens, which are refused."""
