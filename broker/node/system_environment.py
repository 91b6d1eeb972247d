"""The environment of a node that runs as a process: the machine's clocks, randomness, disk, threads and network.

The only place where a node meets gRPC. Not here: what the process does before (`server.py`).
"""

from __future__ import annotations

import gc
import os
import random

from broker.grpc.grpc_doors import GrpcDoors
from broker.grpc.outgoing_calls import Peers
from broker.kafka.kafka_doors import KafkaListeners
from broker.load.thread_times import read_idle_processors, read_thread_times
from broker.node.both_doors import BothDoors
from broker.node.descriptors import open_files_limit
from broker.node.environment import Environment
from penstock.clock import SystemClock
from penstock.ids import system_ids
from penstock.threads import SystemThreads
from storage.disk.file_system import OsFileSystem


def system_environment() -> Environment:
    """The machine, as this process finds it now."""
    clock, threads = SystemClock(), SystemThreads()
    return Environment(
        clock=clock,
        random=random.Random(),
        ids=system_ids(),
        file_system=OsFileSystem(),
        threads=threads,
        transport=Peers,
        doors=BothDoors(GrpcDoors(clock, threads), lambda config, service: KafkaListeners(config, service, clock)),
        descriptors_max=open_files_limit(),
        processors=os.cpu_count() or 1,
        thread_times=read_thread_times,
        idle_processors=read_idle_processors,
        keep_objects=gc.freeze,
    )
