"""Starts the server side: `python -P -m penstock.node start|format --config FILE …`, in a process of its own.

Also `check|recover-quorum --config FILE`, which look at a node before its start and help a lost quorum, `voter --config
FILE`, which says as which voter a controller may join the quorum, `install|uninstall --config FILE`, which make a
systemd service of a node, `log-dump|log-verify|log-recover --request JSON`, which look into the files of a stopped node
for `penstock log`, and `metadata-dump|metadata-digest --request JSON`, which do so for `penstock metadata`.
`host-… --config FILE` runs or prepares all nodes of a host.

The server packages (raft, metadata, storage, broker) have names that are too common for site-packages. An installed
wheel carries them in the private folder `penstock/_server`; a checkout has them in its root. This launcher is the only
place that puts that folder on `sys.path`, first, and takes the current directory off it: so a user's own module
`storage` shadows nothing of ours, and ours nothing of theirs. Nothing else in `penstock` imports a server package; the
command line and `penstock.testing` start this module with `node_command`.

Exit codes: 0 stopped as asked, 1 failed, 2 refused the configuration or the directories; the reason is one line on
stderr; 130 Ctrl-C before there was anything to stop. The exit codes of the log actions are in storage/tools/command.py.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.own_process.process_one import end_at_sigterm, reap_orphans
from penstock.plain_text import json_line, one_line

PARENT_VARIABLE = "PENSTOCK_PARENT_PID"
"""Set by a process whose nodes shall not outlive it."""
NODE_ACTIONS = ("start", "format", "check", "recover-quorum", "voter", "install", "uninstall")
HOST_ACTIONS = ("host-start", "host-check", "host-format", "host-install", "host-uninstall")
LOG_ACTIONS = ("log-dump", "log-verify", "log-recover")
METADATA_ACTIONS = ("metadata-dump", "metadata-digest")
EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130
_PR_SET_PDEATHSIG = 1
PARENT_POLL_S = 1.0


def node_command(*arguments: str) -> list[str]:
    """The command that runs this module with the same interpreter; -P keeps the current directory off its path."""
    return [sys.executable, "-P", "-m", "penstock.node", *arguments]


def server_root() -> Path:
    """The folder of the server packages: the wheel's private folder, or the root of a checkout."""
    package = Path(__file__).resolve().parent
    private = package / "_server"
    return private if private.is_dir() else package.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line, prepares the path and runs; every expected failure is one line on stderr."""
    options = _parser().parse_args(arguments)
    end_at_sigterm(os.getpid())
    if options.action == "start":
        reap_orphans(os.getpid())
    _die_with_parent()
    prepare_path()
    from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError, PenstockError
    from penstock.own_process.standard_streams import give_up_unwritten, open_standard_streams

    open_standard_streams()  # BEFORE any file or socket, which would get the number of a closed one
    try:
        exit_code = _run(options)
        sys.stdout.flush()
        return exit_code
    except (ConfigError, MetaPropertiesError) as error:
        return _complain(error, str(error), EXIT_REFUSED, options.json)
    except CorruptFileError as error:  # of a start; the next one would find the same file
        is_tool = options.action in (*LOG_ACTIONS, *METADATA_ACTIONS)
        return _complain(error, str(error), EXIT_FAILED if is_tool else EXIT_REFUSED, options.json)
    except PenstockError as error:
        return _complain(error, str(error), EXIT_FAILED, options.json)
    except KeyboardInterrupt:  # while its code is loaded, or its logs are recovered: a node that runs has a handler
        return EXIT_INTERRUPTED
    except OSError as error:
        if options.action == "start":
            raise
        what = error.filename if error.filename is not None else "standard output, or a file"
        return _complain(error, f"{what}: {error.strerror or error}", EXIT_FAILED, options.json)
    finally:
        give_up_unwritten()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock.node", description="Runs one Penstock node.")
    parser.add_argument("action", choices=[*NODE_ACTIONS, *HOST_ACTIONS, *LOG_ACTIONS, *METADATA_ACTIONS])
    parser.add_argument("--config", default="", help="the node's configuration file, or env:[FILE] with variables")
    parser.add_argument("--cluster-id", default="", help="start: format the log dirs first where they are empty")
    parser.add_argument("--first-start", default="", help="start --cluster-id: begin, join, together; else begin")
    parser.add_argument("--lost-log-dirs", default="", help="start: directory ids that are gone for good, with commas")
    parser.add_argument("--log-level", default="", help="start: goes before logger.level of the file, until a SIGHUP")
    parser.add_argument("--log-format", default="", help="start: the same, logger.format")
    parser.add_argument("--standalone", action="store_true", help="format: this node is the first voter, alone")
    parser.add_argument("--initial-controllers", help="format: the first voters, ID@HOST:PORT:DIRECTORY_ID,…")
    parser.add_argument("--join", action="store_true", help="format: the voters are those of the metadata log")
    parser.add_argument("--rejoin", action="store_true", help="format: this node was a voter and lost what it promised")
    parser.add_argument(
        "--add-scram", action="append", default=[], help="format, start: a user that a new cluster begins with"
    )
    parser.add_argument("--release-version", default="", help="format: a new cluster has the levels of that release")
    parser.add_argument("--feature", action="append", default=[], help="format: a new cluster's level, NAME=LEVEL")
    parser.add_argument("--secure", action="store_true", help="format: certificate, keys of security, first user")
    parser.add_argument("--ca", default="", help="format --secure: the directory of the certificates")
    parser.add_argument("--dry-run", action="store_true", help="install, uninstall, recover-quorum: only say it")
    parser.add_argument("--json", action="store_true", help="all but start: say it for scripts")
    parser.add_argument("--from", dest="survivor", default="", help="recover-quorum: a metadata log dir that is left")
    parser.add_argument("--lost-voters", default="", help="recover-quorum: the ids of the voters that are gone")
    parser.add_argument("--request", default="{}", help="log-…, metadata-…: what to look at, as the command line asks")
    return parser


def _run(options: argparse.Namespace) -> int:
    """Server modules are found by name only now that the path is prepared; a type checker must not follow them."""
    if options.action in LOG_ACTIONS:
        return int(importlib.import_module("storage.tools.command").main(options.action, options.request))
    if options.action in METADATA_ACTIONS:
        return int(importlib.import_module("broker.quorum.metadata_command").main(options.action, options.request))
    if not options.config:
        from penstock.errors import ConfigError

        raise ConfigError(f"{options.action}: no configuration file; give one with --config FILE")
    if options.action in HOST_ACTIONS:
        return _host(options)
    if options.action in ("install", "uninstall"):
        command = importlib.import_module("broker.node.install.command")
        return int(command.main(options.action, options.config, options.dry_run, options.json))
    if options.action == "check":
        return int(importlib.import_module("broker.node.commands.check").main(options.config, options.json))
    if options.action == "voter":
        return int(importlib.import_module("broker.node.commands.voter").main(options.config, options.json))
    if options.action == "recover-quorum":
        command = importlib.import_module("broker.node.commands.recover_quorum")
        return int(command.main(options.config, options.survivor, options.lost_voters, options.dry_run, options.json))
    if options.action == "start":
        preflight = _loaded("broker.node.process.preflight")
        lost = preflight.parse_lost_log_dirs(options.lost_log_dirs)
        preflight.preflight(options.config)
        together = False
        if options.first_start:
            first = importlib.import_module("broker.node.commands.first_start")
            together = options.first_start == first.TOGETHER
            first.format_first(options.config, options.cluster_id, options.first_start, options.add_scram)
        elif options.cluster_id:
            importlib.import_module("broker.node.commands.format").format_if_empty(options.config, options.cluster_id)
        server = _loaded("broker.node.server")
        levels = (options.log_level, options.log_format)
        return int(server.main(options.config, lost, *levels, begins_together=together))
    return _format(options)


def _host(options: argparse.Namespace) -> int:
    if options.action == "host-start":
        return int(_loaded("broker.host.host_process").main(options.config))
    commands = importlib.import_module("broker.host.host_commands")
    if options.action == "host-check":
        return int(commands.check_host(options.config, as_json=options.json))
    if options.action == "host-format":
        given = (options.config, options.cluster_id, options.add_scram, *_beginning(options))
        return int(commands.format_host(*given, as_json=options.json))
    return int(commands.install_host(options.action, options.config, dry_run=options.dry_run, as_json=options.json))


def _beginning(options: argparse.Namespace) -> tuple[Any, Any]:
    """How the quorum of a new cluster begins, and its levels."""
    beginnings = importlib.import_module("broker.node.commands.initial_controllers")
    quorum = beginnings.QuorumOptions(options.standalone, options.initial_controllers, options.join)
    given_levels = (options.release_version, tuple(options.feature))
    return quorum, importlib.import_module("broker.node.commands.first_levels").LevelOptions(*given_levels)


def _format(options: argparse.Namespace) -> int:
    quorum, levels = _beginning(options)
    given = (options.config, options.cluster_id, options.rejoin, options.add_scram)
    if options.secure:
        return int(importlib.import_module("broker.node.commands.secure").main(*given, options.ca, quorum, levels))
    return int(importlib.import_module("broker.node.commands.format").main(*given, options.json, quorum, levels))


def _loaded(name: str) -> Any:
    """The module. Meanwhile nothing is collected: what is loaded stays, and would be walked again and again."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.enable()


def prepare_path() -> None:
    """The server packages first; without -P the first entry is the current directory, which goes."""
    root = str(server_root())
    sys.path[:] = [root, *(entry for entry in sys.path[0 if sys.flags.safe_path else 1 :] if entry not in ("", root))]


def _die_with_parent() -> None:
    """The kernel kills this process when the thread that started it ends, even by SIGKILL (prctl(2)). Elsewhere than on
    Linux a thread looks for the parent every second."""
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if not parent:
        return
    if not sys.platform.startswith("linux"):
        threading.Thread(target=_watch_parent, args=(parent,), name="parent-watch", daemon=True).start()
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if str(os.getppid()) != parent:  # it died before the call above could see it
        sys.exit(EXIT_FAILED)


def _watch_parent(parent: str) -> None:
    while str(os.getppid()) == parent:
        time.sleep(PARENT_POLL_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _complain(error: Exception, text: str, exit_code: int, as_json: bool) -> int:
    """Tells a failure in one line, as a document of the form that every command has where scripts read it; its exit
    code."""
    line = "penstock: " + one_line(" ".join(text.splitlines())) + "\n"
    if as_json:
        shown = {"name": type(error).__name__, "message": " ".join(text.splitlines()), "exit_code": exit_code}
        line = json_line({"error": shown})
    with contextlib.suppress(OSError):
        sys.stderr.write(line)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
