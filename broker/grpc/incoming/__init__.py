"""A call of a client until it is a request: when it begins, when its message is read, and how that is decoded."""
