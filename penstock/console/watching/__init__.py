"""The last hour of a cluster, kept by the console itself in bounded memory."""
