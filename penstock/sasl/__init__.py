"""SASL: how a client proves who it is, as both ends speak it. It has no I/O, and is the same for both protocols of a
broker."""
