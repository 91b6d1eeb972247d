"""The way of records from brokers to a consumer's buffer: positions decide, the fetcher performs. Not here: handing
them over."""
