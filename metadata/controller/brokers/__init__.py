"""Decisions on the brokers themselves: registration, heartbeats, log dirs and the end of a broker."""
