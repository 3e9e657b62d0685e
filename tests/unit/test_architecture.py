"""How the package hangs together: imports run one way, and nothing branches on an error's words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "worker"

LAYERS = (
    # errors and value objects: these import nothing of ours
    {"worker", "worker.errors", "worker.jobs", "worker.guard", "worker.printable",
     "worker.cores"},
    # settings and logging, and what is said to people and observers
    {"worker.logs", "worker.settings", "worker.settings_problems", "worker.secrets", "worker.names",
     "worker.metrics", "worker.supervisor", "worker.notify", "worker.server"},
    # adapters
    {"worker.pocketbase", "worker.media", "worker.engine", "worker.recognisers",
     "worker.telegram", "worker.proofreading", "worker.pages"},
    # the steps
    {"worker.pipeline"},
    # the processes, and the commands beside them
    {"worker.processes", "worker.cli"},
    {"worker.__main__"},
)  # fmt: skip


def module(path: Path) -> str:
    parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(name: str) -> int:
    """The layer of the longest prefix that one of them names."""
    for prefix in (name, *(name.rsplit(".", n)[0] for n in range(1, name.count(".") + 1))):
        for number, names in enumerate(LAYERS):
            if prefix in names and (prefix != "worker" or name == "worker"):
                return number
    raise AssertionError(f"{name} belongs to no layer: say where it stands")


def imports(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, wherever in it; those for the type checker not."""
    tree = ast.parse(path.read_text())
    typing = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES:
                    yield inner
                elif node.module in MODULES:
                    yield node.module


GRAPH = {name: set(imports(path)) - {"worker"} for name, path in MODULES.items()}


def test_the_graph_is_not_empty():
    """So that the tests below speak of something."""
    assert len(GRAPH) > 40
    assert "worker.jobs" in GRAPH["worker.pipeline.runner"]
    assert "worker.engine.recognise" in GRAPH["worker.engine.child"], "imports inside functions"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_run_one_way(name: str):
    upwards = {each for each in GRAPH[name] if layer(each) > layer(name)}
    assert not upwards, f"{name} imports {upwards} of a layer above"


def test_errors_and_value_objects_import_nothing_of_ours():
    assert GRAPH["worker.errors"] == GRAPH["worker.jobs"] == set()


def test_no_module_imports_itself_in_a_circle():
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " imports ".join((*path, name))
        if name not in done:
            for each in sorted(GRAPH[name]):
                visit(each, (*path, name))
            done.add(name)

    for name in GRAPH:
        visit(name, ())


def test_only_one_module_speaks_to_the_queue():
    for route in ("claim", "finish", "restart", "normalized", "recording/", "transcript/"):
        speakers = {
            name
            for name, path in MODULES.items()
            if any(text.startswith(f"/api/queue/{route}") for text in strings(path))
        } - {"worker.telegram.store"}  # `/api/queue/recordings`: the intake's
        assert speakers == {"worker.pocketbase.queue"}, route


def strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


# Errors are known by type, never by their words.

TELLING = {"startswith", "endswith", "find", "index", "count", "match", "search", "fullmatch"}


def names_of_errors(tree: ast.AST) -> set[str]:
    return {
        node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name
    } | {"error", "exc", "exception"}


def words(node: ast.AST, errors: set[str]) -> bool:
    """Whether an expression takes an error's words: `str(error)`, `error.args`, `describe(...)`."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            of_error = any(isinstance(arg, ast.Name) and arg.id in errors for arg in each.args)
            if each.func.id in {"str", "repr", "describe", "format"} and of_error:
                return True
        if (
            isinstance(each, ast.Attribute)
            and each.attr in {"args", "message", "strerror"}
            and isinstance(each.value, ast.Name)
            and each.value.id in errors
        ):
            return True
    return False


def branches_on_words(source: str) -> list[int]:
    """Lines where something is decided by what an error says."""
    tree = ast.parse(source)
    errors = names_of_errors(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            asked = [node.subject]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = [node.func.value, *node.args] if node.func.attr in TELLING else []
        else:
            continue
        if any(words(each, errors) for each in asked):
            found.append(node.lineno)
    return found


# The Bot API tells some refusals apart by their description and by nothing else.
ONLY_WORDS = {"worker.telegram.answers", "worker.telegram.api", "worker.telegram.files"}


@pytest.mark.parametrize("name", sorted(MODULES.keys() - ONLY_WORDS))
def test_nothing_branches_on_an_errors_words(name: str):
    assert branches_on_words(MODULES[name].read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        'if "timeout" in str(error): pass',
        'if error.args[0] == "x": pass',
        'x = describe(error).startswith("no")',
        'match str(error):\n    case "x": pass',
        'if re.search("locked", str(error)): pass',
    ],
)
def test_the_scanner_sees_such_branches(line: str):
    assert branches_on_words(line)
