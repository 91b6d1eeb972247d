"""Penstock: a replicated, durable log. What users import stands in `penstock.client` and is re-exported here."""
