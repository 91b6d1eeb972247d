"""`penstock host`: all nodes of this machine as one unit."""
