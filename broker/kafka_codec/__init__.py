"""Kafka's encoding of requests and responses, compiled from declarations. It knows no API (those are in `schemas/`)."""
