"""Decisions on the configuration of topics and brokers, each resource whole or not at all."""
