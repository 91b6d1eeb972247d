"""A Penstock cluster in a process of its own, for benchmarks/broker.py: NODES [CONFIG], commands from stdin.

Each line of stdin names a topic and its number of partitions, or is `stop N`, `kill N` or `start N` with a node's id.
Answers with one JSON line when the cluster is ready, and with one when each command is done.
CONFIG is JSON. Ends, and removes everything, when stdin ends. It imports nothing of this folder, so that the Python of
another checkout can run it: that is how a tree is measured beside the one before it.
"""

from __future__ import annotations

import json
import sys
import time

from penstock import Admin
from penstock.testing import Cluster


def main() -> None:
    """Serves until stdin ends."""
    nodes = int(sys.argv[1])
    began = time.monotonic()
    config = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    with Cluster(nodes, config=config, defaults={}) as cluster:
        ready = {"bootstrap": cluster.bootstrap, "ready_s": time.monotonic() - began}
        ready["kafka_bootstrap"] = getattr(cluster, "kafka_bootstrap", "")  # an earlier version has none
        print(json.dumps(ready | {"pids": [cluster.pid(index) for index in range(nodes)]}), flush=True)
        with Admin(cluster.bootstrap) as admin:
            for line in sys.stdin:
                name, number = line.split()
                if name in ("stop", "kill", "start"):
                    getattr(cluster, name)(int(number))
                    running = [cluster.pid(index) for index in range(nodes) if cluster.is_running(index)]
                    print(json.dumps({"pids": running}), flush=True)
                    continue
                admin.create_topic(name, int(number), nodes)
                print(json.dumps({"created": name}), flush=True)


if __name__ == "__main__":
    main()
