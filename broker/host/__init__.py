"""`penstock host`: several nodes of one machine, of one configuration file, as one service."""
