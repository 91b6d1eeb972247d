"""The client's edge: connections, gRPC, TLS and log-ins. Nothing else in the client knows gRPC."""
