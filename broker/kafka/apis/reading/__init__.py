"""The APIs by which records are found and read in Kafka's protocol: Fetch, ListOffsets, OffsetForLeaderEpoch."""
