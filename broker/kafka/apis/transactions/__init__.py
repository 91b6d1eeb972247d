"""The APIs of transactions in Kafka's protocol: those of producers, and those of administrators."""
