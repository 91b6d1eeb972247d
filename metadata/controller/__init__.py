"""The active controller: its state in memory, and its decisions. Pure; `Controller` in controller.py is the way in.

Decide, then do. A decision reads the state and gives records and a response; the driver replays the records, proposes
them to the quorum in one atomic batch, and answers when they are committed. A controller that loses its leadership is
thrown away, and the next one starts from the committed image.
"""
