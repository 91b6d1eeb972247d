"""The calls of Admin: topics, configuration, brokers, replicas and log dirs."""
