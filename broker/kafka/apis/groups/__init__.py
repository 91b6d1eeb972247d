"""The APIs of groups in Kafka's protocol: members, committed offsets, and administrators' calls."""
