"""The handlers of a node's APIs, and the router with their table. Not here: bytes and connections."""
