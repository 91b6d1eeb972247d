"""SASL: how a client proves who it is, as both ends speak it. Without I/O, and the same for both doors of a broker."""
