"""The figures that README and cover letters show: written from kept results, and held to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..bench.inguest import labels, measurements
from ..bench.inguest.measurements import Load, Results
from ..bench.inguest.stats import ENOUGH, default_of, ratio, spread, values
from ..common.errors import UserError
from ..common.paths import REPO, TOOLS
from ..common.progress import say
from ..guests.guest import COUNTED
from ..trees.targets import DEFAULT, TARGETS, Target
from . import tables
from .charts import w1_panels
from .svg import standalone
from .tables import cells, loads

FIGURES = TOOLS / "figures"
README = REPO / "README.md"
CHART = FIGURES / "w1.svg"  # what the README shows
WAYS = ("read", "write")

# The cells of the table: what README and cover letter call them.
ROWS: Mapping[str, tuple[str, str]] = {
    "raw": ("raw RAM disk", "raw device"),
    "base:default": ("base, default path", "base, default"),
    "series:default": ("this queue, default path", "series, default"),
    "series:no_read": ("`no_read_workqueue`", "no_read_workqueue"),
    "series:no_write": ("`no_write_workqueue`", "no_write_workqueue"),
    "series:both": ("both", "both"),
}
BEGIN, END = "<!-- figures: tools/dmcrypt-inline figures writes what follows -->\n", "<!-- end of figures -->\n"
IN_README = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.S)
BY_INSTRUCTIONS = ", by a clock that counts the instructions of one CPU:"
# From the header to a blank line: a mail has no invisible marks.
IN_COVER = re.compile(r"^(?: +read +write)+\n(?:[^\n]+\n)+", re.M)


@dataclass(frozen=True)
class Texts:
    """What belongs into the README, into the cover letter, and into the chart's file."""

    readme: str
    cover: str
    chart: str


def results_of(target: Target, accel: str = "") -> Path:
    """The results file that is kept for a target's figures; it need not exist.

    Beside that of a queue which adds the flags one more, of accelerator COUNTED, may lie.
    """
    return FIGURES / f"{target.name}{f'.{COUNTED}' if accel == COUNTED and not target.has_flags else ''}.json"


def kept(target: Target) -> list[Results]:
    """What is kept for a target's figures: nothing, or the results, or these and those of COUNTED."""
    places = [results_of(target), results_of(target, COUNTED)]
    return [measurements.read(place) for place in dict.fromkeys(places) if place.is_file()]


def _posting(results: Results) -> list[Load]:
    """The loads of the table, read and write: 4k, one job, the null cipher, sectors of 512 bytes."""
    found = {
        load.rw: load
        for load in loads(results, "W1")
        if (load.block_sizes, load.jobs, load.queue_depth) == ((4096, 4096), 1, 1)
        and (load.cipher, load.sector_size) == ("null", 512)
    }
    missing = [way for way in WAYS if way not in found]
    if missing:
        raise UserError(f"the results have no W1 at 4k with one job and the null cipher for: {', '.join(missing)}")
    return [found[way] for way in WAYS]


# For each row of the table, reading and writing: MiB/s, how many times the base's default path, tables.mark of that.
Rows = Mapping[str, list[tuple[str, str, str]]]


def texts(results: Results, counted: Results | None = None) -> Texts:
    """What the results say, and the ratios of those with accelerator COUNTED beside them.

    Raises UserError when a cell of the table is missing or cannot be compared.
    """
    both = _posting(results)
    rows, conditions = _rows(results), [_conditions(results, both)]
    costs: Rows = {}
    if counted is not None:
        costs = _rows(counted)
        conditions.append(_conditions(counted, _posting(counted)))
    chart = standalone(w1_panels(results, {load: f"{load.rw}, {labels.block_sizes(load)}" for load in both}), TITLE)
    return Texts(_readme(rows, costs, conditions), _cover(rows, costs, conditions), chart)


def _rows(results: Results) -> Rows:
    rows: dict[str, list[tuple[str, str, str]]] = {name: [] for name in ROWS}
    for load in _posting(results):
        found = {labels.cell(cell): cell for cell in cells(results, load)}
        missing = [name for name in ROWS if name not in found]
        if missing:
            raise UserError(f"the results have no {', '.join(missing)} for: {labels.describe(load)}")
        for name in ROWS:
            reference = default_of(results, found[name])
            times = ratio(found[name], reference) if reference else None
            if times is None:
                raise UserError(f"{name} cannot be compared with base:default: {labels.describe(load)}")
            speed = spread(values(found[name])).median
            mark = "" if set(times.ratios) == {1.0} else tables.mark(times)  # the base's default path is no finding
            rows[name].append((f"{speed:.{0 if speed >= 10 else 1}f}", labels.figure(times.spread.median), mark))
    return rows


def _conditions(results: Results, of: list[Load]) -> tuple[str, str]:
    """Where these loads were measured, and how far their samples lie apart."""
    shown = [cell for load in of for cell in cells(results, load)]
    spreads = sorted(100 * spread(values(cell)).iqr for cell in shown)
    rounds = sorted({len(cell.samples) for cell in shown})
    counted = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    where = f"Linux {results.environment['kernel_release']} ({results.environment['accel']}), {counted} rounds"
    return where, f"{spreads[0]:.1f} to {spreads[-1]:.1f} %"


MODES = ("default", "no_read", "no_write", "both")


def fixes(results: Results) -> str:
    """For the cover letter of fixes: what each mode has of the base's throughput in that mode; UserError as `texts`."""
    found = [load for load in loads(results, "W1") if load.sector_size == 512]
    of = sorted(found, key=lambda load: (load.block_sizes, WAYS.index(load.rw)))
    lines = ["".join(f"{'':{22 if place == 0 else 3}}{load.rw:>5}" for place, load in enumerate(of))]
    lines.append(f"{'':20}" + "".join(f"{labels.block_sizes(load):>7} " for load in of).rstrip())
    for mode in MODES:
        line = f"{ROWS[f'series:{mode}'][1].removeprefix('series, '):20}"
        for load in of:
            cell = next((each for each in cells(results, load) if labels.cell(each) == f"series:{mode}"), None)
            over = tables.over(results, cell, "same") if cell else None
            if over is None:
                raise UserError(f"series:{mode} cannot be compared with base:{mode}: {labels.describe(load)}")
            # Three decimals: a mode should cost nothing, and a thousandth may be told.
            line += f"{over.spread.median:7.3f}{tables.mark(over).strip():1}"
        lines.append(line.rstrip())
    where, extent = _conditions(results, of)
    same = [f"{tables.SAME} no difference that these rounds can tell"] if tables.SAME in "".join(lines) else []
    return "\n".join([*lines, *same, f"{where};", f"spread of a cell (quartiles over median) {extent}"]) + "\n"


TITLE = "Throughput of one job: 4k requests, RAM disk, null cipher"


def _readme(rows: Rows, costs: Rows, conditions: Sequence[tuple[str, str]]) -> str:
    lines = ["| | read MiB/s | × base | write MiB/s | × base |", "|---|---:|---:|---:|---:|"]
    if costs:
        lines = [f"{lines[0]} read, counted | write, counted |", f"{lines[1]}---:|---:|"]
    for name, (called, _) in ROWS.items():
        pairs = [f"{speed} | {times}{mark}" for speed, times, mark in rows[name]]
        pairs += [f"{times}{mark}" for _, times, mark in costs.get(name, ())]
        lines.append(f"| {called} | {' | '.join(pairs)} |")
    said = [
        f"{where}; medians, the spread of a cell (quartiles over median) is {extent}" for where, extent in conditions
    ]
    lines += ["", f".\nThe last two columns{BY_INSTRUCTIONS} ".join(said) + "."]
    lines += [f"`{tables.SAME}`: no difference that these rounds can tell."] if tables.SAME in "".join(lines) else []
    lines += ["", f"![{TITLE}, as in the table]({CHART.relative_to(REPO)})"]
    return BEGIN + "\n".join(["", *lines, ""]) + "\n" + END


def _cover(rows: Rows, costs: Rows, conditions: Sequence[tuple[str, str]]) -> str:
    lines = [f"{'':27}read{'':11} write", f"{'':22}MiB/s  x base   MiB/s  x base"]
    if costs:
        lines = [f"{lines[0]}      read   write", f"{lines[1]} counted counted"]
    for name, (_, called) in ROWS.items():
        line = "".join(f"{speed:>7}{times:>8}{mark.strip():1}" for speed, times, mark in rows[name])
        line += "".join(f"{times:>7}{mark.strip():1}" for _, times, mark in costs.get(name, ()))
        lines.append(f"{called:20}{line}".rstrip())
    same = [f"{tables.SAME} no difference that these rounds can tell"] if tables.SAME in "".join(lines) else []
    said = [f"{where};\nspread of a cell (quartiles over median) {extent}" for where, extent in conditions]
    return "\n".join([*lines, *same, f"\nlast two columns{BY_INSTRUCTIONS}\n".join(said)]) + "\n"


def _placed(pattern: re.Pattern[str], file: Path, block: str) -> str:
    """The file with the block in its place; UserError when there is not exactly one."""
    text = file.read_text()
    if len(pattern.findall(text)) != 1:
        raise UserError(
            f"{file} has no place, or several, for the generated table\n"
            f"  the README marks it with {BEGIN.strip()}\n  and {END.strip()}, a cover letter has the line"
            " 'read  write' over it and a blank line below"
        )
    return pattern.sub(lambda _: block, text)


def wanted(target: Target, results: Sequence[Results]) -> dict[Path, str]:
    """The files that show figures of the target, as they ought to be. The README has those of the default target."""
    if target.has_flags:
        return {target.cover: _placed(IN_COVER, target.cover, fixes(*results))}
    made = texts(*results)
    files = {target.cover: _placed(IN_COVER, target.cover, made.cover)}
    if target.name == DEFAULT:
        files |= {README: _placed(IN_README, README, made.readme), CHART: made.chart}
    return files


def measured() -> list[Target]:
    """The targets with a results file for their figures."""
    return [target for target in TARGETS.values() if results_of(target).is_file()]


def keep(results_file: Path, target: Target) -> None:
    """Make a results file the one of the target's figures: its W1 with sectors of 512 bytes, which they are made of.

    Raises UserError when it was cut short, is of another target, or lacks a cell.
    """
    results = measurements.read(results_file)
    if results.cut_short:
        raise UserError(
            f"{results_file} was cut short ({results.cut_short}): measure again before showing it to anyone"
        )
    if results.environment.get("target") != target.name:
        raise UserError(f"{results_file} has results of {results.environment.get('target')}, not of {target.name}")
    shown = [cell for cell in results.measurements if (cell.load.workload, cell.load.sector_size) == ("W1", 512)]
    part = replace(results, measurements=tuple(shown))
    _ = fixes(part) if target.has_flags else texts(part)
    fewest = min(len(cell.samples) for cell in part.measurements)
    if fewest < ENOUGH:
        raise UserError(f"{results_file} has cells of {fewest} rounds, which tell nothing: measure again, in quiet")
    FIGURES.mkdir(exist_ok=True)
    place = results_of(target, str(results.environment.get("accel")))
    place.write_text(measurements.to_json(part))
    say(f"{place}: the W1 of {results_file}")


def write() -> int:
    """Write the figures of every target that has a results file. Raises UserError when none has."""
    if not measured():
        raise UserError(
            f"no target has a results file in {FIGURES}\n"
            "  measure with make bench, then: tools/dmcrypt-inline figures --results FILE"
        )
    for target in measured():
        for path, text in wanted(target, kept(target)).items():
            changed = not path.is_file() or path.read_text() != text
            path.write_text(text)
            say(f"{path}: {'written' if changed else 'as it was'}")
    return 0


def check() -> int:
    """Say which files are not what their results file says; status 1 when one is."""
    status = 0
    for target in measured():
        for path, text in wanted(target, kept(target)).items():
            if not path.is_file() or path.read_text() != text:
                status = 1
                source = results_of(target).relative_to(REPO)
                say(
                    f"{path.relative_to(REPO)} is not what {source} (and what lies beside it) says:"
                    " run tools/dmcrypt-inline figures"
                )
    return status
