"""A file for a maintainer: what it has of a cluster and its nodes, without secrets and records, and how it is read."""
