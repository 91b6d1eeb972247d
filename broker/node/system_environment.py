"""The environment of a node that runs as a process: the machine's clocks, randomness, disk, threads and network.

The only place where a node meets gRPC. Not here: what the process does before (`server.py`).
"""

from __future__ import annotations

import gc
import os
import random
from functools import partial

from broker.authentication.tokens.ports import NO_TOKENS, Tokens
from broker.grpc.grpc_listeners import GrpcListeners
from broker.grpc.outgoing_calls import Peers
from broker.kafka.kafka_listeners import KafkaListeners
from broker.load.thread_times import read_idle_processors, read_thread_times
from broker.node.both_protocols import BothProtocols
from broker.node.environment import Environment
from broker.node.process.descriptors import open_files_limit
from broker.tls.material import NO_CERTIFICATES, Certificates
from penstock.clock import SystemClock
from penstock.ids import system_ids
from penstock.threads import SystemThreads
from storage.disk.file_system import OsFileSystem


def system_environment(
    certificates: Certificates = NO_CERTIFICATES, inter_broker_listener: str = "INTERNAL", tokens: Tokens = NO_TOKENS
) -> Environment:
    """The machine, as this process finds it now; the certificates are for the listeners that have TLS, the tokens for
    those that take them."""
    clock, threads = SystemClock(), SystemThreads()
    return Environment(
        clock=clock,
        random=random.Random(),
        ids=system_ids(),
        file_system=OsFileSystem(),
        threads=threads,
        transport=partial(Peers, certificates=certificates, inter_broker_listener=inter_broker_listener),
        listeners=BothProtocols(
            GrpcListeners(clock, threads, certificates),
            lambda config, service: KafkaListeners(config, service, clock, certificates=certificates),
        ),
        certificates=certificates,
        tokens=tokens,
        descriptors_max=open_files_limit(),
        processors=os.cpu_count() or 1,
        thread_times=read_thread_times,
        idle_processors=read_idle_processors,
        keep_objects=gc.freeze,
    )
