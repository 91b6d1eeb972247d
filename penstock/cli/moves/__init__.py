"""Commands that move replicas between brokers: plans, their progress, and throttles."""
