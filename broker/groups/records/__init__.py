"""The records of `__consumer_offsets`, in Kafka's own formats: its tools read what we write, and we what it wrote."""
