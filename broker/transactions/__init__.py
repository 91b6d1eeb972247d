"""The core of one partition of `__transaction_state`: every transaction in it, from its begin to its last marker."""
