"""``import contextgrid`` pulls in nothing heavy, and the library never imports Dagster."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pandas", "sklearn", "litellm", "deepeval", "dagster", "scipy", "bm25s", "wordllama", "numba")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(output.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import contextgrid",
        "import contextgrid as cg; cg.Lab, cg.Config, cg.build, cg.Experiment, cg.Runner",
        "import contextgrid.cli",
    ],
)
def test_importing_the_library_loads_nothing_heavy(statement: str) -> None:
    assert loaded_after(statement) == set()


def test_definitions_load_nothing_heavy_but_dagster() -> None:
    """Every code server and every launched run that is not a fork imports them."""
    assert loaded_after("import contextgrid_dagster.definitions") == {"dagster"}
