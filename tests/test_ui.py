"""The Dagster UI in a real browser: what a user must see on the graph, the matrix and a lift report."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.display.labels import FLOW
from contextgrid_dagster.executor import execute
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.instance import home_of, open_instance
from contextgrid_dagster.planner import plan
from tests.dagster_fixtures import EXPERIMENT, QUESTIONS, write_experiment

CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
PATIENCE = 120.0  # seconds, on a machine that runs other tests; a quiet one needs ten
ROWS = ("markdown__recursive-200__bm25", "markdown__recursive-200__tfidf__dense")
COLUMNS = ("extractive", "llm__short__offline-reader", "llm__long__offline-reader")
HOSTILE = "<img src=x onerror=alert(1)> **q1**"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH; apt-get install chromium"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an experiment that was built, with a question id that is HTML and Markdown."""
    text = EXPERIMENT.replace("counting:a", "offline:reader").replace(
        '["recursive:60", "recursive:200"]', "recursive:200"
    )
    anchors = [{"source_id": "refunds.md", "quote": "thirty days of purchase"}]
    first = {"id": HOSTILE, "question": "How long do refunds take?", "anchors": anchors}
    file = write_experiment(tmp_path_factory.mktemp("ui"), text, [first, *QUESTIONS[1:]])
    experiment = Experiment.load(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        patch.delenv("CONTEXTGRID_STORAGE", raising=False)
        with open_instance(home_of(experiment)) as instance:
            assert execute(plan(GridGraph(experiment), instance, []), instance).success
    return file


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """``contextgrid-dagster ui``, until all tests here are done."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE")
    }
    command = [sys.executable, "-c", "from contextgrid_dagster.cli import main; main()"]
    log = built.parent / "ui.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "ui", str(built), "--port", str(port)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/server_info", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(server)


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    """A page in a browser that collects the errors of its console."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1500, "height": 1600}, base_url=address)
        page.set_default_timeout(PATIENCE * 1000)
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        browser.close()
    assert not errors


def test_the_graph_shows_groups_in_flow_order_with_every_asset(page: Any) -> None:
    page.goto("/asset-groups")
    page.get_by_text("5_findings").first.wait_for()
    words = page.locator("body").inner_text().split()
    # The list beside the graph comes first; names in it occur twice, once to be measured.
    assert list(dict.fromkeys(word for word in words if word in FLOW)) == list(FLOW)
    page.keyboard.press("Alt+KeyE")  # expands all groups
    for asset in (asset for assets in FLOW.values() for asset in assets if asset != "judge_scores"):
        page.get_by_text(asset, exact=True).first.wait_for()


def test_the_matrix_of_answers_names_its_rows_and_columns(page: Any) -> None:
    page.goto("/assets/answers?view=partitions")
    page.get_by_text("6 Partitions Selected").wait_for()
    for key in (*ROWS, *COLUMNS):
        # The page cuts long keys in the middle; the title has all of it.
        page.get_by_title(key, exact=True).first.wait_for()
    assert page.get_by_text("Materialized (6)").is_visible()


def test_a_lift_report_shows_its_sentence_its_tables_its_charts_and_its_file(page: Any, built: Path) -> None:
    cell = f"{COLUMNS[1]}|{ROWS[1]}"
    page.goto(f"/assets/lift_reports?view=partitions&partition={cell.replace('|', '%7C')}")
    page.locator("img[src^='data:image/svg']").first.wait_for()
    text = page.locator("body").inner_text()
    assert "and the answer" in text
    assert "over 3 of 3 questions" in text
    for expected in ("difference", "95 % interval", "answer_quality", "recall@3", "unchanged"):
        assert expected in text
    assert HOSTILE in text
    widths = page.locator("img[src^='data:image/svg']").evaluate_all("all => all.map(image => image.naturalWidth)")
    assert len(widths) == 2
    assert all(width > 0 for width in widths)
    file = f"{COLUMNS[1]}/{ROWS[1]}.html"
    assert page.get_by_text(file).is_visible()
    assert (built.parent / ".contextgrid" / "storage" / "bench" / "lift_reports" / file).is_file()


def test_the_report_file_opens_by_itself_and_shows_ids_as_text(page: Any, built: Path) -> None:
    folder = built.parent / ".contextgrid" / "storage" / "bench"
    page.goto((folder / "leaderboard.html").as_uri())
    assert page.locator("svg").count() == 1
    page.get_by_role("link").first.click()
    page.get_by_text("What became of the questions").wait_for()
    assert HOSTILE in page.locator("body").inner_text()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the UI did not start: {log.read_text()}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and all that it started: they share its process group."""
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        pass
    finally:
        try:
            os.killpg(server.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        server.wait(20)
