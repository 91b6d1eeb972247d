"""Metadata: the records that the quorum commits, the immutable image that every node reads, the controller's decisions.

Pure throughout: no asyncio, sockets, files, clocks, and no randomness but an injected `random.Random`. A driver in
broker/ carries records between here, the quorum's log and the publishers.
"""
