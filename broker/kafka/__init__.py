"""Kafka's protocol at a node: its listeners, and the plans that translate its requests. No decisions here."""
