# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of the documentation and of the docstrings.

On a page, blocks marked `python` are run, and blocks marked `pycon` must print what they show. The blocks of one page
share their names. A module after the mark, as in "```pycon torch", leaves a block out where it is not installed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gradscaler

PROJECT = Path(__file__).resolve().parents[1]
REPOSITORY = PROJECT.parents[1]
PAGES = (PROJECT / "README.md", REPOSITORY / "README.md", REPOSITORY / "docs" / "python.md")
BLOCK = re.compile(r"^```(?P<kind>python|pycon)(?: (?P<needs>\w+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    kind: str
    needs: str | None
    text: str
    line: int


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [Block(**match.groupdict(), line=text.count("\n", 0, match.start()) + 1) for match in BLOCK.finditer(text)]


def cases():
    """Each page, and once more for each module that some of its blocks need. The source distribution has not all."""
    for page in filter(Path.exists, PAGES):
        for module in dict.fromkeys([None, *(block.needs for block in blocks(page))]):
            name = f"{page.parent.name}/{page.name}"
            yield pytest.param(page, module, id=name if module is None else f"{name}-{module}")


def run_block(page, block, names):
    if block.kind == "python":
        exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, {}, page.name, str(page), block.line)
    assert test.examples, f"{page.name}:{block.line}: a pycon block without >>>"
    test.globs = names
    doctest.DebugRunner().run(test, clear_globs=False)


@pytest.mark.parametrize(("page", "module"), list(cases()))
def test_page(page, module):
    if module is not None:
        pytest.importorskip(module)
    names = {"__name__": "__main__"}
    with np.errstate():  # a page may change it
        for block in blocks(page):
            if block.needs in (None, module):
                run_block(page, block, names)


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(gradscaler.__path__)])
def test_docstrings(name):
    module = importlib.import_module(f"gradscaler.{name}")
    assert doctest.testmod(module).failed == 0


def test_docstring_of_the_package():
    found = doctest.testmod(gradscaler)
    assert found.attempted and not found.failed


def test_a_wrong_example_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```pycon\n>>> x\n2\n```\n")
    with pytest.raises(doctest.DocTestFailure):
        test_page(page, None)
