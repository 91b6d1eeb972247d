"""The pages of a log-in: with a password of the cluster, and at an identity provider."""
