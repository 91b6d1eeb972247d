"""The assignors of the consumer protocol: pure functions from subscriptions and what is assigned to a new target."""
