"""`send_many`: whole batches of many values, without an object for each record."""
