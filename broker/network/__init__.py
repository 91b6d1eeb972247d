"""The way of requests through a node, whatever their protocol: connection, memory, queue, dispatcher."""
