"""The pages of the console, one module each: a question to the cluster, and the view that its template shows."""
