"""The gRPC edge of a node: listeners, calls and streams, and calls to other nodes."""
