"""`penstock log verify`: every check of the files of a log dir."""
