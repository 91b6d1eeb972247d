"""`penstock bench`: a quick measurement of a running cluster, and its picture."""
