"""The process that a program of ours is: its standard streams, and its duties as process 1 of a container."""
