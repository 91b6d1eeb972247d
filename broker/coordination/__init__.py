"""The common part of all coordinators: state that is the log of a led partition, and its driver."""
