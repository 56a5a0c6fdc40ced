"""A gate's report as JUnit XML, which CI systems read as test results."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from contextgrid.checks.verdict import Outcome, Verdict
from contextgrid.core.errors import ConfigError
from contextgrid.core.markup import visible
from contextgrid_dagster.gate.verdicts import Examined, GateReport


def write_junit(report: GateReport, path: Path) -> None:
    """Write a report as one test suite for each asset, with one test case for each partition and check.

    A case ``up_to_date`` says of each partition whether it is missing or stale. What closes the gate is a failure,
    what could not be measured is skipped, and a warning that does not close it passes and is told in its output.

    Raises:
        ConfigError: if the file cannot be written.
    """
    tree = ElementTree.ElementTree(junit(report))
    ElementTree.indent(tree)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tree.write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise ConfigError(f"--junit {path}: cannot be written: {error.strerror}") from error


def junit(report: GateReport) -> ElementTree.Element:
    """The root element ``testsuites``."""
    root = ElementTree.Element("testsuites", name=visible(report.name))
    suites: dict[str, ElementTree.Element] = {}
    for examined in report.partitions:
        asset = examined.node.asset
        if asset not in suites:
            suites[asset] = ElementTree.SubElement(root, "testsuite", name=asset)
        _add_state(suites[asset], report, examined)
        for verdict in examined.verdicts:
            _add_verdict(suites[asset], report, examined, verdict)
    for element in (*suites.values(), root):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        element.set("failures", str(len(list(element.iter("failure")))))
        element.set("errors", "0")
        element.set("skipped", str(len(list(element.iter("skipped")))))
        element.set("time", "0")
    return root


def _add_state(suite: ElementTree.Element, report: GateReport, examined: Examined) -> None:
    case = _case(suite, report, examined, "up_to_date")
    if examined.step.is_pending:
        told = visible(f"{examined.step.status}: {'; '.join(examined.step.reasons)}")
        ElementTree.SubElement(case, "skipped" if report.allow_stale else "failure", message=told)


def _add_verdict(suite: ElementTree.Element, report: GateReport, examined: Examined, verdict: Verdict) -> None:
    case = _case(suite, report, examined, verdict.check)
    properties = ElementTree.SubElement(case, "properties")
    for name, value in {"severity": verdict.severity, **verdict.measured}.items():
        shown = value if isinstance(value, str) else f"{value:.6g}"
        ElementTree.SubElement(properties, "property", name=visible(name), value=shown)
    told = visible(verdict.description)
    if report.is_objection(verdict):
        ElementTree.SubElement(case, "failure", type=verdict.severity, message=told)
    elif verdict.outcome is Outcome.ABSENT:
        ElementTree.SubElement(case, "skipped", message=told)
    else:
        warning = "" if verdict.passed else "warning: "
        ElementTree.SubElement(case, "system-out").text = f"{warning}{told}"


def _case(suite: ElementTree.Element, report: GateReport, examined: Examined, check: str) -> ElementTree.Element:
    node = examined.node
    return ElementTree.SubElement(
        suite,
        "testcase",
        classname=visible(f"{report.name}.{node.asset}.{check}"),
        name=visible(node.partition or node.asset),
        time="0",
    )
