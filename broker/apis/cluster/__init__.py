"""APIs that describe the cluster: its brokers, topics and quorum, as this node knows them or the leader tells."""
