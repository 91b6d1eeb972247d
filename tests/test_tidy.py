"""The house is in order: sizes, references, one form of what recurs, and the modules that call themselves pure.

Limits are of what people read: a file of 400 lines, a function of 70, a folder of 24 modules. Generated code has none,
tests and benchmarks have longer files. A module below 60 lines has two users or a test of its own. Where a ruler would
part what a reader wants together, the ruler is changed, and says why. A constant called STILL_… counts what an older
house has left over: it may only fall.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("penstock", "raft", "metadata", "storage", "broker")
SHORT = (*SOURCES, "ops", "protos")
SERVERS = ("raft", "metadata", "storage", "broker")
FILE_LINES_MAX = 400
TEST_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
FILE_LINES_MIN = 60
FOLDER_MODULES_MAX = 24
STILL_SHORT = 18
"""Modules below FILE_LINES_MIN with one user and no test of their own that are no port, table or format."""
STILL_PATCHED = 50
"""Constants that tests patch."""
SUBJECTLESS = (
    r"\s*(Above|After|Among|As|At|Before|Behind|Below|Beside|Between|By|During|For|From|In|Like|On|Since|To|Under|Until"
    r"|With|Within|Without|Said|That of|Those of|Told|One that|One of)\b"
)
WIRING = ("broker/node", "broker/grpc", "broker/replication")
OF_OTHERS = {
    "Topic.hasCollision": "Kafka's",
    "SimpleRate": "Kafka's",
    "String.hashCode": "Java's",
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "Spark's",
    "xds": "gRPC's",
    "name_0": "a name of a thread, numbered",
    "name_1": "likewise",
    "NNNNNNNNNNNNNNNNNNNN.snapshot": "a file's name, with its digits",
}
"""Names in backquotes that no code here has."""
IMPURE = {
    "asyncio",
    "concurrent",
    "grpc",
    "os",
    "random",
    "select",
    "shutil",
    "socket",
    "subprocess",
    "threading",
    "time",
}
PYTHONS_OWN = {"json/decoder.py"}
OF_USERS = {"peers.py"}
"""It stands in a folder that a benchmark is given."""
HEADER_COLUMNS = 120
NAMED_TWICE = {
    "boolean": "a kind of configuration key, and of field in Kafka's messages",
    "main": "where a process begins",
    "string": "likewise",
    "reference": "one page of the generated documentation each; called through its module",
}
"""Why a name stands in more than one module."""
LOGGERS_OF_OPERATORS = ("'penstock.audit'",)
"""Logs that operators send elsewhere by their names, from whichever module they come."""
EDGES = {"broker": "broker.grpc", "penstock.client": "penstock.client.wire"}
"""The folders that may speak protobuf and gRPC, of those of which no other one may."""
WITH_SUBJECTS = (*SOURCES, "ops", "protos", "examples", "benchmarks", "tests")
KAFKAS_MESSAGES = "broker/kafka/schemas/"
"""The messages of its protocol have its names, and ours have them too where they mean the same."""
NAMESPACES = ("penstock/cli/", "broker/kafka/apis/")
"""Modules whose functions are called through them: commands are named for what users type, and
plans for Kafka's APIs."""
OUTSIDE = (r"\.\./shared", r"\b(?:design|reliability)(?:\.md)? §", r"\bfeatures row", r"project's card", r"\bstyle\.md")


def modules(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "pb" not in path.relative_to(ROOT).parts]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed module; no test changes it."""
    return ast.parse(text_of(path))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_files_functions_and_folders_are_of_a_size_that_can_be_read() -> None:
    wrong: list[str] = []
    for path in modules(*SOURCES, "tests", "benchmarks", "ops", "protos"):
        text = text_of(path)
        limit = FILE_LINES_MAX if path.relative_to(ROOT).parts[0] in SHORT else TEST_LINES_MAX
        if text.count("\n") > limit:
            wrong.append(f"{name(path)}: {text.count(chr(10))} lines, at most {limit}")
        if path.relative_to(ROOT).parts[0] not in SOURCES:
            continue
        for function in functions(tree_of(path)):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                wrong.append(f"{name(path)}: {function.name} has {lines} lines, at most {FUNCTION_LINES_MAX}")
    folders = Counter(path.parent for path in modules(*SOURCES) if path.name != "__init__.py")
    wrong += [f"{name(folder)}: {n} modules" for folder, n in folders.items() if n > FOLDER_MODULES_MAX]
    assert not wrong


def test_a_module_that_calls_itself_pure_imports_nothing_that_is_not() -> None:
    wrong: list[str] = []
    for path in modules(*SOURCES):
        tree = tree_of(path)
        if not re.search(r"(?m)(^|[.\n] ?)Pure\b", ast.get_docstring(tree) or ""):
            continue
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            wrong += [f"{name(path)} imports {module}" for module in names if module.partition(".")[0] in IMPURE]
    assert not wrong


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes that are assigned to, of whatever object."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign) else []
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            yield from (part for part in parts if isinstance(part, ast.Attribute))


def made_here(tree: ast.AST) -> set[str]:
    """Names of objects that a class's own methods make: by `cls(...)`, `cls.__new__(cls)`, or the class's name."""
    found: set[str] = set()
    for made in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(made):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                call = node.value.func
                maker = call.value if isinstance(call, ast.Attribute) else call
                if isinstance(maker, ast.Name) and maker.id in ("cls", made.name):
                    found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("pattern", [r"on_[a-z]", r"_[a-z]"])
def test_what_an_object_needs_is_given_when_it_is_made(pattern: str) -> None:
    """No object sets the callback or the private state of another one: a constructor has a port for it."""
    wrong: list[str] = []
    for path in modules(*SERVERS):
        tree = tree_of(path)
        own = {"self", "cls", *made_here(tree)}
        for target in assigned(tree):
            of_self = isinstance(target.value, ast.Name) and target.value.id in own
            if re.match(pattern, target.attr) and not of_self:
                wrong.append(f"{name(path)}:{target.lineno}: {ast.unparse(target)}")
    assert not wrong


def test_wiring_sets_nothing_on_the_parts_that_it_makes() -> None:
    wrong = [
        f"{name(path)}:{target.lineno}: {ast.unparse(target)}"
        for path in modules("broker/node")
        for target in assigned(tree_of(path))
        if ast.unparse(target.value) != "self" and target.attr != "__cause__"
    ]
    assert not wrong


def referring() -> list[Path]:
    """Everything that people read."""
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "ops").rglob("*.md"),
    ]
    return pages + modules(*SOURCES, "tests", "benchmarks", "protos")


def test_every_file_that_is_named_is_there() -> None:
    """By its path from the root, or by the end of it."""
    here = [f"/{name(path)}" for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    gone: list[str] = []
    for path in referring():
        named = set(re.findall(r"(?<![\w./-])((?:\w+/)+\w+\.py)\b", text_of(path)))
        lost = [one for one in sorted(named - PYTHONS_OWN) if not any(file.endswith(f"/{one}") for file in here)]
        gone += [f"{name(path)} names {one}" for one in lost]
    assert not gone


def test_every_neighbour_that_a_docstring_names_is_there() -> None:
    """A module by its name alone; in the sources also a folder, by the end of its path."""
    here = modules(*WITH_SUBJECTS)
    files = {path.name for path in here} | OF_USERS
    paths = {f"/{name(folder)}/" for path in here for folder in path.parents if ROOT in folder.parents}
    folders = {folder[at.start() + 1 :] for folder in paths for at in re.finditer("/", folder)}

    def lost(text: str, path: Path) -> set[str]:
        found = set(re.findall(r"(?<![\w/.*])([a-z_]+\.py)\b", text)) - files
        if path.relative_to(ROOT).parts[0] in SOURCES:
            found |= set(re.findall(r"(?<![\w./-])((?:[a-z_]+/)+)(?=[\s,.;:)`]|$)", text)) - folders
        return found

    gone = [
        f"{name(path)}:{text.lineno} names {one}"
        for path in here
        if lost(text_of(path), path)  # few files, which are parsed
        for text in texts(tree_of(path))
        for one in sorted(lost(text.value, path))
    ]
    assert not gone


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_nothing_refers_to_what_is_not_in_the_repository(pattern: str) -> None:
    found = [name(path) for path in referring() if re.search(pattern, text_of(path))]
    assert [path for path in found if path != name(Path(__file__))] == []


def test_every_invariant_that_is_cited_is_defined_once() -> None:
    defined = re.findall(r"(?m)^\| (I\d+) \|", (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8"))
    pages = [text_of(path) for path in referring()]
    cited = {number for page in pages for number in re.findall(r"\bI\d{1,2}\b", page)}
    assert len(defined) == len(set(defined))
    assert cited <= set(defined)


def test_the_contracts_of_imports_leave_nothing_out_that_is_there() -> None:
    """A folder beside an edge speaks no protobuf; a name that a contract passes over is there."""
    linter = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]
    held = {
        one
        for rule in linter["contracts"]
        for one in rule.get("source_modules", ())
        if "grpc" in rule["forbidden_modules"]
    }
    here = {name(path.with_suffix("")).replace("/", ".").removesuffix(".__init__") for path in modules(*SOURCES)}
    for box, edge in EDGES.items():
        beside = {one for one in here if one.rpartition(".")[0] == box}
        assert beside - held == {edge}
    ignored = {
        f"{box}.{one}"
        for rule in linter["contracts"]
        for box in rule.get("containers", ())
        for one in rule.get("exhaustive_ignores", ())
    }
    assert ignored <= here


def test_headers_of_sections_have_one_form() -> None:
    """`# -- what follows ----…`, up to the last column: in a class with its indentation."""
    wrong: list[str] = []
    for path in modules(*SOURCES, "tests", "benchmarks", "ops", "protos"):
        lines = ["", *text_of(path).split("\n"), ""]
        for number, (before, line, after) in enumerate(zip(lines, lines[1:], lines[2:], strict=False), start=1):
            stands_alone = not before and not after and re.match(r" *# \S", line)
            is_header = stands_alone or re.match(r" *# ?([-=~*#])\1.*\1\1$", line)
            if is_header and not (re.fullmatch(r" *# -- \S.*\S -{3,}", line) and len(line) == HEADER_COLUMNS):
                wrong.append(f"{name(path)}:{number}: {line.strip()}")
    assert not wrong


def test_every_logger_is_named_for_its_module_and_called_log() -> None:
    allowed = {f"_log = logging.getLogger({of})" for of in ("__name__", *LOGGERS_OF_OPERATORS)}
    wrong: list[str] = []
    for path in modules(*SOURCES):
        if "getLogger" not in text_of(path):
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Assign) or "getLogger" not in ast.unparse(node.value):
                continue
            if ast.unparse(node) not in allowed:
                wrong.append(f"{name(path)}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong


def test_every_repr_is_the_name_of_the_class_with_facts_in_brackets() -> None:
    """`Segment(…)`, as a dataclass shows itself."""
    wrong: list[str] = []
    for path in modules(*SOURCES, "tests"):
        if "def __repr__" not in text_of(path):
            continue
        for owner in ast.walk(tree_of(path)):
            methods = owner.body if isinstance(owner, ast.ClassDef) else []
            for method in methods:
                if not isinstance(method, ast.FunctionDef) or method.name != "__repr__":
                    continue
                for node in ast.walk(method):
                    if not isinstance(node, ast.Return) or node.value is None:
                        continue
                    shown = ast.unparse(node.value).removeprefix("f")[1:-1]
                    starts = (f"{owner.name}(", "{type(self).__name__}(", "({type(self).__name__}")
                    if not (shown.startswith(starts) and shown.endswith(")")):
                        wrong.append(f"{name(path)}:{node.lineno}: {shown}")
    assert not wrong


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings, and the strings below a field or a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def test_a_docstring_begins_with_its_subject() -> None:
    """These words make a noun of a clause, or leave the subject to the name above."""
    vague = re.compile(r"\s*(What|Whether|Of|Those|Likewise)\b")
    quoted = re.compile(r"[\"']\\?\s*(What|Whether|Of|Those|Likewise)\b")  # few files have one, and are parsed
    wrong = [
        f"{name(path)}:{text.lineno}: {text.value.strip()[:60]}"
        for path in modules(*WITH_SUBJECTS)
        if quoted.search(text_of(path))
        for text in texts(tree_of(path))
        if vague.match(text.value)
    ]
    assert not wrong


def test_a_definition_does_not_take_its_subject_from_its_name() -> None:
    """The first word of the docstring of a module, a class or a function is no preposition and no pronoun of these."""
    vague = re.compile(
        r"\s*(By|From|It|Its|Said|That|The same|Their|They|Told|Which|Who|Whoever|Whose|With|Within|Without)\b"
    )
    wrong = [
        f"{name(path)}: {getattr(node, 'name', 'the module')}: {text.strip()[:60]}"
        for path in modules(*SOURCES, "ops")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and vague.match(text := ast.get_docstring(node, clean=False) or "")
    ]
    assert not wrong


def test_no_docstring_begins_with_a_preposition() -> None:
    begins = re.compile(SUBJECTLESS)
    found = [
        f"{name(path)}:{text.lineno}: {text.value.strip()[:60]}"
        for path in modules(*SOURCES)
        for text in texts(tree_of(path))
        if begins.match(text.value)
    ]
    assert not found


def words_of(path: Path) -> list[str]:
    """All names of a module's code, and the words of its strings, but for docstrings and comments."""
    lines = text_of(path).splitlines()
    for text in texts(tree_of(path)):
        end = text.end_lineno or text.lineno
        lines[text.lineno - 1 : end] = [""] * (end - text.lineno + 1)
    return re.findall(r"\w+", re.sub(r"(?m)(?:^|\s)#.*$", "", "\n".join(lines)))


def test_every_name_in_a_docstring_is_there() -> None:
    """A name in backquotes is one of the code; a dotted path of packages is a module, or a name in one."""
    here = {name(path.with_suffix("")).replace("/", ".").removesuffix(".__init__") for path in modules(*SOURCES)}
    known = {word for path in modules(*WITH_SUBJECTS) for word in words_of(path)}
    known |= {word for path in (ROOT / "protos").rglob("*.proto") for word in re.findall(r"\w+", text_of(path))}
    quoted = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`")
    dotted = re.compile(rf"`((?:{'|'.join(SOURCES)})(?!\.v1\.|\.max\.)(?:\.\w+)+)`")
    gone = [
        f"{name(path)}:{text.lineno} names {one}"
        for path in modules(*SOURCES)
        for text in texts(tree_of(path))
        if "`" in text.value
        for one in {
            *(one for one in quoted.findall(text.value) if not set(one.split(".")) <= known and one not in OF_OTHERS),
            *(one for one in dotted.findall(text.value) if not {one, one.rpartition(".")[0]} & here),
        }
    ]
    assert not gone


def users_of(paths: list[Path]) -> Counter[str]:
    """By the name of a module, how many others import it, or names from it."""
    users: Counter[str] = Counter()
    for path in paths:
        imported: set[str] = set()
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        users.update(imported)
    return users


def test_a_short_module_has_a_reason_to_stand_alone() -> None:
    """Two users, a test of its own, nothing but ports, records of data, constants and types, or rows of APIs: an API is
    one file, however short, since a reader looks for it by its name."""
    users = users_of(modules(*SOURCES, "ops"))

    def is_alone(path: Path) -> bool:
        dotted = name(path.with_suffix("")).replace("/", ".")
        folder = ROOT / "tests" / "unit" / path.relative_to(ROOT).parent
        clients = ROOT / "tests" / "unit" / path.relative_to(ROOT / path.relative_to(ROOT).parts[0]).parent
        if path.stem.startswith("__") or users[dotted] != 1 or text_of(path).count("\n") >= FILE_LINES_MIN:
            return False
        only_declares = all(isinstance(function.body[-1], ast.Expr) for function in functions(tree_of(path)))
        is_api = re.search(r"(?m)^(SERVED: Final = |@serves\()", text_of(path)) is not None
        has_test = any((each / f"test_{path.stem}.py").exists() for each in (folder, clients))
        return not only_declares and not is_api and not has_test

    found = [name(path) for path in modules(*SOURCES) if is_alone(path)]
    assert len(found) == STILL_SHORT, "\n".join(found)


def test_the_wiring_names_what_it_passes() -> None:
    """No call spreads a tuple of the same function: a swap of two of one type would pass every check."""
    found: list[str] = []
    for path in modules(*WIRING):
        for function in functions(tree_of(path)):
            packed = {
                target.id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            found += [
                f"{name(path)}:{node.lineno}: {ast.unparse(spread)}"
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
                for spread in node.args
                if isinstance(spread, ast.Starred) and isinstance(spread.value, ast.Name) and spread.value.id in packed
            ]
    assert not found, "\n".join(found)


def test_limits_are_given_and_not_patched() -> None:
    """A test gives a limit to the constructor or the function that has it: a patched constant is bound to a module."""
    constant = re.compile(r"(?:.*\.)?[A-Z][A-Z0-9_]+")
    found = [
        f"{name(path)}:{node.lineno}"
        for path in modules("tests")
        if "monkeypatch.setattr" in text_of(path)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "monkeypatch.setattr"
        if any(
            isinstance(word, ast.Constant) and isinstance(word.value, str) and constant.fullmatch(word.value)
            for argument in node.args[:2]
            for word in ast.walk(argument)
        )
    ]
    assert len(found) == STILL_PATCHED, "\n".join(found)


def test_a_name_means_one_thing() -> None:
    """Public classes and functions of modules; what a name means may not depend on where it was imported from."""
    holders: dict[str, list[str]] = {}
    for path in modules(*SOURCES):
        for node in tree_of(path).body:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if not is_function and not isinstance(node, ast.ClassDef):
                continue
            if node.name.startswith("_") or (is_function and name(path).startswith(NAMESPACES)):
                continue
            owner = "Kafka's " if name(path).startswith(KAFKAS_MESSAGES) else ""
            holders.setdefault(owner + node.name, []).append(name(path))
    twice = {known: paths for known, paths in holders.items() if len(paths) > 1}
    assert {known: paths for known, paths in twice.items() if known not in NAMED_TWICE} == {}
    assert set(NAMED_TWICE) - set(twice) == set()


def test_one_idiom_says_that_a_task_died() -> None:
    """`penstock.tasks.watch`."""
    idiom = re.compile(r"cancelled\(\) and \(\w+ := \w+\.exception\(\)\)")
    found = [name(path) for path in modules(*SOURCES) if idiom.search(text_of(path))]
    assert found == ["penstock/tasks.py"]
