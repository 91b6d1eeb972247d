"""Everybody without a key against a secured cluster: python -m tests.attack [--nodes 3].

Every RPC of every gRPC listener, and every API of Kafka's protocol in every version, is asked by strangers, clients
without rights, and nodes that are not what they say; tokens are forged; below them TLS is attacked, and passwords are
guessed. A client with rights works meanwhile. Prints a table RPC × attacker and a verdict; exit code 1 for a hole.
Loopback only, bounded in count and in time (two minutes).

`--floods` and what follows it is another campaign: who uses up a node, and what honest clients get done beside it
(floods/__main__.py).
"""

from __future__ import annotations

import argparse
import logging
import sys

from tests.attack.campaign import Size, printed, run
from tests.attack.floods.__main__ import main as floods

FLOODS = "--floods"


def main() -> int:
    if FLOODS in sys.argv:
        return floods([argument for argument in sys.argv[1:] if argument != FLOODS])
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="A secured cluster, attacked.")
    parser.add_argument("--nodes", type=int, default=Size().nodes, choices=(1, 3, 5))
    parser.add_argument(FLOODS, action="store_true", help="floods instead; -h after it tells of them")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    report = run(Size(options.nodes), lambda text: print(text, file=sys.stderr, flush=True))
    print("\n".join(printed(report)))
    return 1 if report.holes else 0


if __name__ == "__main__":
    sys.exit(main())
