"""No module of the server reaches for the machine by itself: time, randomness, ids, threads, disk and sockets come to a
node in its environment. The exceptions stand here by name, each with its reason.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.seams import violations

ROOT = Path(__file__).resolve().parents[2]
SERVER = ("raft", "metadata", "storage", "broker")
GRPC = "speaks gRPC: the real thing behind the ports of transport and listeners"
HOST = "the process around the nodes of a machine, and no node"
EDGES = {
    "storage/disk/file_system.py": "the real thing behind the port of the disk",
    "storage/disk/async_files.py": "the real thing behind the port of files for the event loop",
    "storage/disk/spare_descriptors.py": "the reserve of descriptors of that file system",
    "broker/quorum/metadata_command.py": "the start of a process of its own, like that of the offline tools",
    "storage/tools/command.py": "the offline tools are a process of their own, and this is its start",
    "storage/tools/overlay.py": "the offline tools' read-only view of the disk",
    "broker/config/config_check.py": "looks whether two log dirs are one, before there is a node",
    "broker/authentication/tokens/fetching.py": "asks the issuer of tokens for its public keys",
    "broker/config/config.py": "takes the process's variables, where they are asked for, before there is a node",
    "broker/config/config_file.py": "reads the configuration, before there is a node",
    "broker/kafka/connection/incoming_frame.py": "large requests have mappings of their own, which go back whole",
    "broker/grpc/controller_calls.py": GRPC,
    "broker/grpc/client_calls.py": GRPC,
    "broker/grpc/client_streams.py": GRPC,
    "broker/grpc/credentials.py": GRPC,
    "broker/grpc/callers.py": GRPC,
    "broker/grpc/errors.py": GRPC,
    "broker/grpc/access.py": GRPC,
    "broker/grpc/handlers.py": GRPC,
    "broker/grpc/incoming/call_intake.py": GRPC,
    "broker/grpc/open_services.py": GRPC,
    "broker/grpc/refused_calls.py": GRPC,
    "broker/grpc/outgoing_calls.py": GRPC,
    "broker/grpc/servers.py": GRPC,
    "broker/node/process/audit_file.py": "a thread of the process, beside its log: no disk holds up who is audited",
    "broker/metrics/exposition.py": "makes a page in a thread of its own, beside the node's event loop",
    "broker/metrics/page_server.py": "serves the operators' pages over HTTP, on a loop that is not the node's",
    "broker/connections/accepted_sockets.py": "looks at the process's sockets for the gRPC listeners",
    "broker/connections/shut_out.py": "attaches filters to the process's sockets for the gRPC listeners",
    "broker/kafka/connection/bound_sockets.py": "binds the real sockets of Kafka's clients",
    "broker/kafka/connection/tls_handshake.py": "the handshake of such a socket, by the loop",
    "broker/tls/ssl_contexts.py": "Python's ssl, which wants a key as a file",
    "broker/load/thread_times.py": "reads /proc: the real thing behind `Environment.thread_times`",
    "broker/node/commands/secure.py": "`penstock node format --secure` is a process of its own, and makes files",
    "broker/node/commands/add_scram.py": "`penstock node format` is a process of its own, and asks for a password",
    "broker/node/commands/first_start.py": "formats before there is a node",
    "broker/node/commands/check.py": "`penstock node check` is a process of its own",
    "broker/node/commands/voter.py": "`penstock quorum add-voter --config` asks a process of its own",
    "broker/node/commands/recover_quorum.py": "`penstock node recover-quorum` is a process of its own",
    "broker/node/process/core_files.py": "sets up the process, before there is a node",
    "broker/node/process/descriptors.py": "raises the process's limit of descriptors, before there is a node",
    "broker/node/commands/format.py": "`penstock node format` is a process of its own",
    "broker/node/install/command.py": "`penstock node install` is a process of its own",
    "broker/node/process/malloc_arenas.py": "sets up the process, before there is a node",
    "broker/node/own_certificates.py": "reads the certificates, before there is a node",
    "broker/node/process/preflight.py": "tries the ports, before there is a node",
    "broker/node/server.py": "the process around the node",
    "broker/node/system_environment.py": "makes the real environment",
    "broker/host/host_commands.py": "`penstock host check|format|install` are processes of their own",
    "broker/host/host_control.py": HOST,
    "broker/host/host_file.py": "reads the host's file, before there is a node",
    "broker/host/host_pages.py": HOST,
    "broker/host/host_process.py": HOST,
    "broker/host/node_files.py": HOST,
    "broker/node/process/systemd.py": "the process tells the service manager",
}


def modules() -> list[str]:
    return [str(path.relative_to(ROOT)) for folder in SERVER for path in sorted((ROOT / folder).rglob("*.py"))]


def found_in(module: str) -> list[str]:
    return violations((ROOT / module).read_text(encoding="utf-8"))


def test_no_module_of_the_server_reaches_for_the_machine_by_itself() -> None:
    wrong = {module: found for module in modules() if module not in EDGES and (found := found_in(module))}
    assert not wrong, "take it from the constructor; where the machine begins, name the module in EDGES with the reason"


def test_every_exception_is_one() -> None:
    assert [edge for edge in EDGES if not (ROOT / edge).exists() or not found_in(edge)] == []
