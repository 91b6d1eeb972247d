"""A broker's registration with the controller: heartbeats, fencing, lost replicas, controlled shutdown."""
