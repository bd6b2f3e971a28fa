"""The report of one benchmark run: a page that needs nothing beside itself, and a summary in Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from ..bench.inguest import labels, measurements
from ..bench.inguest.measurements import RAW, Results
from ..bench.inguest.stats import ERROR, FEW, METRICS
from ..common.errors import UserError
from ..common.paths import TOOLS, build_dir
from ..common.progress import say, step
from ..guests.guest import COUNTED
from . import svg, tables
from .charts import Chart, charts
from .tables import loads

TEMPLATE = TOOLS / "report" / "report.html"
STYLE = TOOLS / "report" / "report.css"

# What each workload asks. W1 to W5 are named after the reports that they repeat.
QUESTIONS = {
    "W1": ("Throughput of one job", "The posting of 2020: a RAM disk and the null cipher, one request at a time."),
    "W2": ("All modes", "The comparison made when kernel 5.9 came: every mode, three block sizes, two ciphers."),
    "W3": ("Parallel random I/O", "The load that the worker threads were written for in 2013."),
    "W4": ("Access time", "One request at a time on devices with a fixed service time, after a report of 2011."),
    "W5": ("A mixed load, and what it costs", "Readers and writers at once, as on a server, also on busy CPUs."),
    "curves": ("Cost against load", "How throughput and CPU time grow with the load, one thing varied at a time."),
}


# What the summary tells of a workload: figure (a key of METRICS) and what it is divided by.
OVERVIEW = {
    "W1": (("throughput", "default"), ("throughput", "raw")),
    "W2": (("throughput", "default"), ("throughput", "raw"), ("p50", "default")),
    "W3": (("throughput", "default"),),
    "W4": (("p50", "default"), ("p50", "raw"), ("p99", "default"), ("p99.9", "default")),
    "W5": (("throughput", "default"), ("throughput", "raw"), ("p99", "default"), ("cpu", "default"), ("cpu", "raw")),
}
SAME_MODE = ("throughput", "same")


@dataclass(frozen=True)
class Texts:
    """The report in both forms."""

    html: str
    markdown: str


def build(results: Results) -> Texts:
    """Draw and write everything that these results have the figures for.

    Raises UserError when they hold no mapping at all.
    """
    if all(cell.variant == RAW for cell in results.measurements):
        raise UserError("the results have no cell of dm-crypt, so there is nothing to report; measure again")
    drawn = charts(results)
    return Texts(_page(results, drawn), _summary(results))


def _page(results: Results, drawn: list[Chart]) -> str:
    target = str(results.environment.get("target", "?"))
    sections = [_section(results, workload, drawn) for workload in _measured(results)]
    links = "".join(f'<li><a href="#{it}">{it}: {escape(QUESTIONS[it][0])}</a></li>' for it in _measured(results))
    introduction = "".join(f"<p>{escape(text)}</p>\n" for text in _reading())
    return Template(TEMPLATE.read_text()).substitute(
        title=escape(f"Inline dm-crypt, measured: {target}"),
        palette=svg.rules(":root"),
        style=STYLE.read_text(),
        introduction=f"{_notes(results)}{introduction}{_environment(results)}<nav><ul>{links}</ul></nav>",
        sections="\n".join(sections),
        footer="<p>Generated from a results file; see the README of the project.</p>",
    )


def _measured(results: Results) -> list[str]:
    return [workload for workload in QUESTIONS if loads(results, workload)]


def _reading() -> list[str]:
    """What a reader must know before the first figure."""
    return [
        "Every figure is the median of its rounds; error bars and the values in brackets are the quartiles. "
        "Ratios are taken within a round, and only they are judged; absolute figures are those of this boot.",
        "A verdict is given when the interval of the ratio's median (sign test) does not hold 1, else it is "
        f"'no difference'; it is wrong in at most {ERROR.numerator} of {ERROR.denominator} cells where there is none.",
    ]


def _notes(results: Results) -> str:
    why = f"This run was cut short: {escape(results.cut_short)}. Cells are missing or have few samples."
    return f'<p class="note">{why}</p>' if results.cut_short else ""


def facts(results: Results) -> list[tuple[str, str]]:
    """What ran: the environment in words."""
    found = results.environment
    rounds = sorted({len(cell.samples) for cell in results.measurements})
    rows = [
        ("plan", f"{results.plan}, started {results.started}, {results.seconds / 60:.0f} minutes"),
        ("rounds", str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"),
        ("kernel", f"Linux {found.get('kernel_release')} ({found.get('kernel_flavour')})"),
        ("run by", f"{found.get('accel')} on {found.get('cpu')}"),
        *([("time", "counted: a nanosecond for each instruction of one CPU")] if found.get("accel") == COUNTED else []),
        ("queue", _short(found.get("queue_hash"))),
    ]
    rows += [(f"dm-crypt.c, {name}", f"blob {_short(blob)}") for name, blob in dict(found.get("modules", {})).items()]
    return rows + [(f"{name} of the host", str(version)) for name, version in dict(found.get("tools", {})).items()]


def _short(name: object) -> str:
    """As much of a hash as one needs; the results file has it all."""
    return str(name)[:12]


def _environment(results: Results) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>\n" for name, value in facts(results))
    return f'<section id="environment">\n<h2>What ran</h2>\n<table class="facts">\n{rows}</table>\n</section>'


def _section(results: Results, workload: str, drawn: list[Chart]) -> str:
    title, question = QUESTIONS[workload]
    head = f'<section id="{workload}">\n<h2>{workload}: {escape(title)}</h2>\n<p>{escape(question)}</p>\n'
    figures = "".join(_figure(chart) for chart in drawn if chart.workload == workload)
    shown = tables.as_html(tables.ratios(results, workload), f"{workload}: throughput and ratios")
    if _base_has_modes(results):
        same = tables.overview(results, workload, METRICS[SAME_MODE[0]], SAME_MODE[1])
        shown += tables.as_html(same, f"{workload}: throughput, times that of the base in the same mode")
    shown += _folded(tables.costs(results, workload), f"{workload}: latency and CPU time")
    shown += _folded(tables.where(results, workload), f"{workload}: what ran where: CPU time by context")
    return f"{head}{figures}{shown}</section>"


def _folded(table: tables.Table, caption: str) -> str:
    """A table that is there to be looked up."""
    return f"<details><summary>{escape(caption)}</summary>\n{tables.as_html(table, caption)}</details>\n"


def _figure(chart: Chart) -> str:
    panels = "".join(chart.panels)
    return (
        f'<figure id="{chart.name}" class="chart">\n<figcaption><strong>{escape(chart.title)}</strong>'
        f'{escape(chart.text)}</figcaption>\n<div class="panels">\n{panels}</div>\n</figure>\n'
    )


def _summary(results: Results) -> str:
    """For a mail: what ran, and each workload's ratios; few enough to be read."""
    lines = [f"# Inline dm-crypt, measured: {results.environment.get('target', '?')}", "", *_reading(), ""]
    if results.cut_short:
        lines += [f"This run was cut short: {results.cut_short}.", ""]
    lines += [f"- {name}: {value}" for name, value in facts(results)]
    for workload in _measured(results):
        lines += ["", f"## {workload}: {QUESTIONS[workload][0]}", ""]
        if workload not in OVERVIEW:
            lines += ["See report.html."]
            continue
        lines += [f"'{tables.SAME}': no difference. '{tables.UNTOLD}': {FEW}.", ""]
        more = (SAME_MODE,) if _base_has_modes(results) else ()
        lines += ["\n\n".join(_overview(results, workload, *asked) for asked in (*OVERVIEW[workload], *more))]
    return "\n".join(lines) + "\n"


def _overview(results: Results, workload: str, name: str, to: str) -> str:
    metric = METRICS[name]
    reference = {"raw": "the raw device", "same": "the base in the same mode"}.get(to, labels.baseline(results))
    title = f"{metric.title[0].upper()}{metric.title[1:]}, times that of {reference}. "
    table = tables.overview(results, workload, metric, to)
    return title + (tables.as_markdown(table).rstrip() if table.groups else "There is none.")


def _base_has_modes(results: Results) -> bool:
    """Whether the base was measured in other modes than its default path: then what the queue mends must not cost."""
    return any(cell.variant == "base" and cell.mode != "default" for cell in results.measurements)


def newest(target_name: str) -> Path:
    """The results of the target's last benchmark. Raises UserError when there are none."""
    found = sorted((build_dir(target_name) / "bench").glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UserError(
            f"there are no results of {target_name} to report\n"
            f"  measure first: make bench TARGET={target_name}\n"
            "  or name a results file: make report RESULTS=FILE"
        )
    return found[-1]


def write(results_file: Path) -> int:
    """Write report.html and summary.md into build/<target>/report, the target being that of the results.

    Raises UserError when the file has no results.
    """
    results = measurements.read(results_file)
    measured = str(results.environment.get("target"))
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", measured):
        raise UserError(f"{results_file} names no target: {measured}")
    with step(f"drawing the charts of {results_file}"):
        made = build(results)
    out = build_dir(measured) / "report"
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("report.html", made.html), ("summary.md", made.markdown)):
        (out / name).write_text(text)
        say(f"{out / name}")
    return 0
