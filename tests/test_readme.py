"""What the README prints works as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contextgrid.evalset import load_evalset
from contextgrid.grid.experiment import Experiment

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
DOCUMENTS = {
    "refunds.md": "# Refunds\n\nRefunds are paid within thirty days of purchase.",
    "shipping.md": "# Shipping\n\nExpress parcels arrive on the next working day.",
}


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for kind, text in fenced if kind == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (tmp_path / "documents" / name).write_text(text, encoding="utf-8")
    (tmp_path / "prompts").mkdir()
    prompt = next(block for block in blocks("") if "{context}" in block)
    (tmp_path / "prompts" / "short.txt").write_text(prompt, encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text(blocks("json")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_experiment_file_and_the_questions_are_valid(folder: Path) -> None:
    (folder / "manual.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    experiment = Experiment.load(folder / "manual.yaml")
    assert len(experiment.matrix.rows) == 20
    assert len(experiment.matrix.columns) == 3
    assert len(load_evalset(folder / "questions.jsonl")) == 2


def test_the_model_configurations_are_valid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = blocks("yaml")
    for run in written[1:]:
        text = re.sub(r"^run:.*?(?=^report:)", run, written[0], flags=re.DOTALL | re.MULTILINE)
        (folder / "manual.yaml").write_text(text, encoding="utf-8")
        assert Experiment.load(folder / "manual.yaml").run.model is not None


def test_the_python_examples_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = next(block for block in blocks("python") if "import contextgrid as cg" in block)
    exec(compile(example, "README.md", "exec"), {})
    assert "thirty days" in capsys.readouterr().out


def test_the_dagster_example_loads_two_experiments(folder: Path) -> None:
    from dagster import Definitions

    for name in ("manual", "tickets"):
        text = blocks("yaml")[0].replace("name: manual", f"name: {name}")
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    example = next(block for block in blocks("python") if "build_definitions" in block)
    names: dict[str, object] = {"__file__": str(folder / "definitions.py")}
    exec(compile(example, "README.md", "exec"), names)
    definitions = names["defs"]
    assert isinstance(definitions, Definitions)
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {"manual/answers", "tickets/answers"} <= keys
