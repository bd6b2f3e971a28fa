"""What the measuring program is told, and the parts it measures together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ...common.errors import UserError
from .measurements import RAW, Load
from .workloads import BASE, QUEUE, Cell, Plan

TOGETHER = 8  # loads measured in the same rounds: more would lie far apart, fewer would load modules more often


@dataclass(frozen=True)
class Variant:
    """One dm-crypt to measure.

    `kinds` are the kinds of Cell that it takes part in; `module` is the file to
    load, relative to the order's; "" for the dm-crypt of the running kernel; a `strict` variant must know
    every mode, others are measured in those they know.
    """

    name: str
    kinds: tuple[str, ...]
    module: str
    strict: bool


BASE_KINDS, QUEUE_KINDS, ALL_KINDS = (BASE,), (QUEUE,), (BASE, QUEUE)


@dataclass(frozen=True)
class Order:
    """Measure this plan on these variants.

    `cryptsetup` is the program for LUKS volumes; `writes` is False where the devices must only be read.
    """

    plan: Plan
    variants: tuple[Variant, ...]
    cryptsetup: str
    writes: bool = True


def to_json(order: Order) -> str:
    """The text of an order."""
    return json.dumps(asdict(order)) + "\n"


def read(path: Path) -> Order:
    """The order in a file. Raises UserError when it is none."""
    try:
        found = json.loads(path.read_text())
        plan = found.pop("plan")
        cells = tuple(Cell(Load.of(each.pop("load")), **each) for each in plan.pop("cells"))
        variants = tuple(
            replace(
                Variant(**each), kinds=tuple(each["kinds"]), module=each["module"] and str(path.parent / each["module"])
            )
            for each in found.pop("variants")
        )
        return Order(Plan(cells=cells, **plan), variants, **found)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is no order to measure: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Part:
    """Loads that share device and mapping, measured in the same rounds, with their cells."""

    cells: tuple[Cell, ...]

    @property
    def loads(self) -> tuple[Load, ...]:
        """The loads in the plan's order."""
        return tuple(dict.fromkeys(cell.load for cell in self.cells))

    def of(self, variant: Variant) -> dict[str, list[Load]]:
        """The modes in which the variant is measured, in the plan's order, and the loads of each."""
        found: dict[str, list[Load]] = {}
        for load, mode in dict.fromkeys((cell.load, cell.mode) for cell in self.cells if cell.kind in variant.kinds):
            found.setdefault(mode, []).append(load)
        return found

    def raw(self) -> list[Load]:
        """The loads that are measured on the device itself too."""
        return [load for load in self.loads if Cell(load, RAW, RAW) in self.cells]

    def count(self, variants: Sequence[Variant]) -> int:
        """How many samples a round takes."""
        return len(self.raw()) + sum(len(loads) for variant in variants for loads in self.of(variant).values())


def parts(cells: Sequence[Cell]) -> list[Part]:
    """The cells in parts of at most TOGETHER loads; the order of loads is kept."""
    found: list[list[Cell]] = []
    loads: set[Load] = set()
    shared: tuple[object, ...] | None = None
    for cell in cells:
        load = cell.load
        key = (load.device, load.cipher, load.sector_size, load.scheduler, load.max_sectors_kb, load.cpu_load)
        if key != shared or (load not in loads and len(loads) == TOGETHER):
            found.append([])
            loads, shared = set(), key
        loads.add(load)
        found[-1].append(cell)
    return [Part(tuple(each)) for each in found]
