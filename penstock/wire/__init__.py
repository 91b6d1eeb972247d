"""The parts of the wire that clients and nodes share: codecs, errors, record bytes in messages. Edges."""
