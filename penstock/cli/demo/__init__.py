"""`penstock demo`: records go through three nodes to Parquet, while two of the nodes crash and come back."""
