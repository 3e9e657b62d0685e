"""docs/spec.md maps every Scenario to its test, and nothing else."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SPEC = REPOSITORY / "docs" / "spec.md"
SOURCES = REPOSITORY.parent / "shared" / "spec"
OWN = {"own": SPEC, "telegram": REPOSITORY / "docs" / "telegram.md"}

Row = tuple[str, str, str]
"""Document, Scenario, test."""


def table() -> list[Row]:
    """The rows of docs/spec.md."""
    found = re.findall(r"^\| (\w+) \| (.+?) \| `(.+?)` \|$", SPEC.read_text(), re.MULTILINE)
    assert found
    return found


def marked() -> Iterator[Row]:
    """What the tests say of themselves."""
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(
                        "mark.scenario"
                    ):
                        document, title = (ast.literal_eval(each) for each in mark.args)
                        yield document, title, f"{path.relative_to(REPOSITORY)}::{node.name}"


def titles(path: Path) -> Counter[str]:
    """The Scenarios that a document demands. A title may stand under two Requirements."""
    return Counter(re.findall(r"^#### Scenario: (.+?)\s*$", path.read_text(), re.MULTILINE))


def listed(document: str) -> Counter[str]:
    return Counter(title for name, title, _ in table() if name == document)


def test_the_table_is_what_the_tests_say():
    rows = table()
    assert len(set(rows)) == len(rows)
    assert set(rows) == set(marked())


@pytest.mark.parametrize("document", OWN)
def test_every_scenario_of_ours_has_its_test(document: str):
    assert listed(document) == titles(OWN[document])


@pytest.mark.parametrize("document", ["pipeline", "intake"])
def test_every_scenario_of_the_sources_has_its_test(document: str):
    source = SOURCES / f"{document}.ru.md"
    if not source.exists():
        pytest.skip("the source requirements are not part of a clone")
    assert listed(document) == titles(source)


def test_no_document_is_unheard_of():
    assert {document for document, _, _ in table()} == {"pipeline", "intake", *OWN}
