"""Limits of connections and streams: who may connect, what is counted, and what is cut."""
