"""The part of transactions in what leaders of partitions are asked."""
