"""The command of python_nursery.py: `python -IS forked_python.py PYTHON ADDRESS -m MODULE [ARGUMENT…]`,
or `-c CODE`.

It imports little, for it is started often.
"""

from __future__ import annotations

import os
import socket
import sys


def main(python: str, address: str, arguments: list[str]) -> int:
    """The exit code of the forked process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nursery:
        try:
            if arguments[0] not in ("-m", "-c"):
                raise OSError("neither a module nor code")
            nursery.connect(address)
            environ = [f"{name}={value}" for name, value in os.environ.items()]
            message = "\0".join([os.getcwd(), str(len(arguments)), *arguments, *environ])
            socket.send_fds(nursery, [message.encode(errors="surrogateescape")], [0, 1, 2])
        except OSError:
            os.execv(python, [python, *arguments])
        return int(nursery.recv(16) or 1)


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:3], sys.argv[3:]))
