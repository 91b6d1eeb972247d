"""`penstock console`: a window on the cluster in a browser. A client of the cluster, and nothing of its servers."""
