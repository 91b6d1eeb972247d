"""Replicas that the controller moves by itself, so that brokers have equally many."""
