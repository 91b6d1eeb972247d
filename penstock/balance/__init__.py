"""Plans which replicas go to which brokers, so that a cluster is even, or a broker empty. Pure; see planner.py."""
