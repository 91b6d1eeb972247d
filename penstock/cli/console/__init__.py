"""`penstock produce` and `penstock consume`: records as lines of standard input and output."""
