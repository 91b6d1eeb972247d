"""The elections of leaders: the rule for one partition, and the elections that brokers, operators and the schedule
cause."""
