"""Messages of groups: the classic, the consumer, the share and the streams protocol."""
