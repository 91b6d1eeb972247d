"""`penstock apply` and `penstock export`: a cluster as a file declares it."""
