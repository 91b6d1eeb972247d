"""A node's half of the quorum: the metadata log, the image made of it, and the way to the controller."""
