"""Kafka's messages, as classes whose fields carry their place on the wire. Names are Kafka's, in our spelling.

A struct that means the same in several messages is declared once; of those that differ each is named for its message.
An id is one of our 22 characters; a nullable string is null by default where all versions allow it.
"""
