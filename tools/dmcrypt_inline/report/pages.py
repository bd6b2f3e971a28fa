"""The report of a results file: one HTML page that needs no other file, or its tables as Markdown."""

from collections.abc import Sequence
from pathlib import Path

from ..bench.measure import RESULTS, STAGE
from ..common.errors import UserError
from ..common.paths import TOOLS, build_dir
from ..common.progress import say, step
from ..guests.guest import COUNTED
from ..guests.runs import kept_runs
from . import sectors, workloads
from .cells import Results, read_results
from .tables import Section, markdown

TEMPLATE = TOOLS / "report" / "report.html"
HASH = 12  # digits that a page shows of a hash; the results file has all


def newest_results(target: str) -> Path:
    """The results of the target's last benchmark. Raises UserError when there are none."""
    found = (run / RESULTS for run in kept_runs(build_dir(target), STAGE))
    last = next((path for path in found if path.is_file()), None)
    if last is None:
        raise UserError(
            f"there are no results of {target}\n"
            f"  measure first: make bench TARGET={target}\n"
            "  or name a results file: make report RESULTS=FILE"
        )
    return last


def write_report(path: Path) -> int:
    """Write build/<target>/report/report.html, the target being that of the results; return an exit status."""
    results = read_results(path)
    out = build_dir(results["environment"]["target"]) / "report" / "report.html"
    out.parent.mkdir(exist_ok=True)
    with step(f"drawing the charts of {path}"):
        text = page(results)
    out.write_text(text)
    say(str(out))
    return 0


def page(results: Results) -> str:
    """The page in HTML."""
    import jinja2  # noqa: PLC0415  (only in the tools' own Python environment)

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    notes, found = _content(results)
    return environment.from_string(TEMPLATE.read_text()).render(
        target=results["environment"]["target"], facts=facts(results), notes=notes, sections=found
    )


def page_text(path: Path) -> str:
    """The tables that compare, as Markdown."""
    results = read_results(path)
    notes, found = _content(results)
    lines = [f"{name}: {value}" for name, value in facts(results)]
    for section in found:
        tables = [markdown(table) for table in section.tables]
        lines += ["", f"## {section.title}", *([section.text] if section.text else []), "", "\n".join(tables).rstrip()]
    return "\n".join([*lines, "", *notes])


def _content(results: Results) -> tuple[Sequence[str], list[Section]]:
    if results["kind"] == "sectors":
        return sectors.SECTOR_NOTES, sectors.sector_sections(results)
    return workloads.NOTES, workloads.sections(results)


def facts(results: Results) -> list[tuple[str, str]]:
    """Kernel, queue, accelerator, processor and tools of the run, by name."""
    ran = results["environment"]
    clock = ", a clock that counts the instructions of one CPU" if ran["accel"] == COUNTED else ""
    rows = [
        ("plan", f"{results['plan']}, {results['rounds']} rounds, started {results['started']}"),
        ("kernel", f"Linux {ran['kernel_release']} ({ran['kernel_flavour']})"),
        ("ran by", f"{ran['accel']}{clock}, on {ran['cpu']}"),
        ("queue", f"{ran['target']}, {ran['queue_hash'][:HASH]}"),
        *((f"dm-crypt.c, {name}", f"blob {blob[:HASH]}") for name, blob in ran["modules"].items()),
        ("tools", ", ".join(f"{name}: {version}" for name, version in ran["tools"].items())),
    ]
    rows += [("patches for measuring only", ", ".join(results["measuring"]))] if results.get("measuring") else []
    rows += [("skipped", why) for why in results.get("skipped", ())]
    return rows
