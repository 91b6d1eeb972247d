"""Finds where a module uses the machine directly: its clock, randomness, ids, threads, disk or sockets.

`violations(source)` reads a syntax tree and returns each place, as `line: what`. A name that `import … as` gives counts
as what it stands for. A use by way of `getattr` or of a variable is not found. Allowed are: `os.path`, `os.fspath` and
the constants of `os`; `random.Random` as a type; the types of `concurrent.futures`; asyncio, except its calls for
threads, processes and sockets. Not here: which modules may use the machine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

MACHINE_MODULES = frozenset(
    {
        "_thread",
        "aiofiles",
        "ctypes",
        "fcntl",
        "getpass",
        "glob",
        "grpc",
        "http",
        "io",
        "mmap",
        "multiprocessing",
        "pathlib",
        "platform",
        "queue",
        "resource",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "uvloop",
    }
)
"""To import one of these, or a part of it, is to use the machine."""
FREE_OF_OS = frozenset({"path", "fspath", "PathLike", "strerror"})
FREE_OF_FUTURES = frozenset({"CancelledError", "Executor", "Future", "TimeoutError"})
WAYS_OUT_OF_ASYNCIO = frozenset(
    {
        "to_thread",
        "create_subprocess_exec",
        "create_subprocess_shell",
        "open_connection",
        "open_unix_connection",
        "start_server",
        "start_unix_server",
    }
)
THE_MACHINES_OWN = frozenset(
    {
        "SystemClock",
        "SystemThreads",
        "OsFileSystem",
        "system_ids",
        "system_environment",
    }
)
"""Makers of the real thing behind a port."""
SERVES_METRICS = frozenset({"start_http_server", "ProcessCollector"})
NOW = frozenset({"now", "today", "utcnow"})


def violations(source: str) -> list[str]:
    """The places where the module uses the machine directly."""
    return [f"{line}: {what}" for line, what in sorted(set(_found(_by_own_names(ast.parse(source)))))]


def _by_own_names(tree: ast.Module) -> ast.Module:
    """The tree without the names that `import … as` gives: each name in the code is that of what it stands for."""
    given = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.asname is not None
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = given.get(node.id, node.id)
    return tree


def _found(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [alias.name.partition(".")[0] for alias in names]
                yield from ((node.lineno, f"import {name}") for name in modules if name in MACHINE_MODULES)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((node.lineno, what) for what in _from(module, [alias.name for alias in names]))
            case ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr=attribute):
                if what := _attribute(ast.unparse(owner), attribute):
                    yield node.lineno, what
            case ast.Name(id=name) if name in THE_MACHINES_OWN:
                yield node.lineno, name
            case ast.Call():
                if what := _call(node):
                    yield node.lineno, what


def _from(module: str, names: list[str]) -> Iterator[str]:
    top = module.partition(".")[0]
    for name in names:
        if (
            top in MACHINE_MODULES
            or (top == "prometheus_client" and name in SERVES_METRICS)
            or (module == "os" and not _is_free_of_os(name))
            or (module == "random" and name != "Random")
            or (module == "concurrent.futures" and name not in FREE_OF_FUTURES)
            or (module == "concurrent")
            or (module == "asyncio" and name in WAYS_OUT_OF_ASYNCIO)
        ):
            yield f"from {module} import {name}"


def _attribute(owner: str, attribute: str) -> str:
    if owner == "os" and not _is_free_of_os(attribute):
        return f"os.{attribute}"
    if owner == "random" and attribute != "Random":
        return f"random.{attribute}"
    if owner == "asyncio" and attribute in WAYS_OUT_OF_ASYNCIO:
        return f"asyncio.{attribute}"
    if owner == "concurrent.futures" and attribute not in FREE_OF_FUTURES:
        return f"concurrent.futures.{attribute}"
    if owner in ("datetime", "date") and attribute in NOW:
        return f"{owner}.{attribute}"
    return ""


def _is_free_of_os(name: str) -> bool:
    return name in FREE_OF_OS or name.isupper()


def _call(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id="open" | "Random" as name):
            return f"{name}()"
        case ast.Attribute(value=ast.Name(id="random"), attr="Random" as name):
            return f"random.{name}()"
        case ast.Attribute(attr="run_in_executor") if _is_none(_executor_of(call)):
            return "run_in_executor(None)"
        case ast.Attribute(attr="now" | "utcnow" | "today" as name, value=ast.Attribute(attr="datetime" | "date")):
            return f"datetime.{name}()"
    return ""


def _executor_of(call: ast.Call) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == "executor"]
    return next(iter([*call.args, *named]), None)


def _is_none(argument: ast.expr | None) -> bool:
    return isinstance(argument, ast.Constant) and argument.value is None
