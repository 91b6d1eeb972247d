"""The driver of the transactions' cores: finds a coordinator, gives it requests, and has the markers written."""
