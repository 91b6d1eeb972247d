"""The plans of requests that look at the cluster and change it."""
