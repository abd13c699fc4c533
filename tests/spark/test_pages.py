"""The code of pages, examples and the notebook that need Spark, all on one session."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.documents.page import PAGES, REPOSITORY, needs_spark, run_page, runs

WITH_SPARK = [page for page in PAGES if runs(page) and needs_spark(page)]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
NOTEBOOKS = sorted((REPOSITORY / "examples").glob("*.ipynb"))


@pytest.fixture
def shared(spark: SparkSession) -> Iterator[SparkSession]:
    """`hg.session()` gives this one, and sets what is usual on it."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [], "an example leaves nothing where it was started"


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_cells_of_a_notebook_run_in_order(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = json.loads(notebook.read_text())
    assert (content["nbformat"], content["metadata"]["kernelspec"]["language"]) == (4, "python")
    names: dict[str, object] = {}
    for number, cell in enumerate(content["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs would go stale; they are made where it is run"
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)
