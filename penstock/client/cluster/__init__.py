"""A client's knowledge of the cluster: addresses, metadata, leaders, coordinators, and retries."""
