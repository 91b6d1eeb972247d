"""A cluster as a file declares it: the file, what there is, and the plan from one to the other. Pure."""
