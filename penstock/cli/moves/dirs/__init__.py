"""The part of a plan that moves replicas between the log dirs of one broker."""
