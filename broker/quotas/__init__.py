"""Quotas: how much of a broker each client may have, and how long one that had more must wait."""
