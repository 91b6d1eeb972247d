"""The metrics of a node for Prometheus, read from statistics of its parts when they are scraped."""
