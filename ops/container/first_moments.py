"""Loaded by every Python of the image before its program (first_moments.pth): process 1 ends at SIGTERM from then on.

To load the command line takes some tenths of a second, in which process 1 would ignore a SIGTERM, and a container that
is stopped as soon as it was started would live until its time is up. Programs set their own handlers later. No
sitecustomize: Debian's Python has one, which comes first.
"""

import os
import signal

if os.getpid() == 1:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
