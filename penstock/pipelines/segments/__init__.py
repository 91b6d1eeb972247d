"""The closed segments of replicas on disk, for jobs that read files instead of a cluster."""
