"""workloads.py and orders.py: every cell of the workloads is there, and reaches the measuring program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dmcrypt_inline.bench.inguest import orders
from dmcrypt_inline.bench.inguest.orders import ALL_KINDS, BASE_KINDS, QUEUE_KINDS, TOGETHER, Order, Variant
from dmcrypt_inline.bench.inguest.workloads import PLANS, get_plan
from dmcrypt_inline.common.errors import UserError

SERIES = Variant("series", QUEUE_KINDS, "variants/series.ko", strict=True)
BASE_VARIANT = Variant("base", BASE_KINDS, "variants/base.ko", strict=True)
FULL = PLANS["full"].cells


def test_no_cell_is_there_twice() -> None:
    for plan in PLANS.values():
        assert len(set(plan.cells)) == len(plan.cells), plan.name


def test_an_unknown_plan_is_refused_with_the_known_names() -> None:
    with pytest.raises(UserError, match="PLAN= takes one of: quick, w1"):
        get_plan("W9")


def test_parts_share_a_mapping_and_keep_every_cell() -> None:
    parts = orders.parts(FULL)
    assert sorted(map(repr, (cell for part in parts for cell in part.cells))) == sorted(map(repr, FULL))
    for part in parts:
        assert len(part.loads) <= TOGETHER
        assert len({(x.device, x.cipher, x.sector_size, x.scheduler, x.max_sectors_kb) for x in part.loads}) == 1


def test_a_part_counts_the_samples_of_a_round() -> None:
    (part,) = orders.parts(PLANS["quick"].cells)
    assert part.count([BASE_VARIANT, SERIES]) == 2 * (1 + 1 + 4)
    assert part.of(BASE_VARIANT) == {"default": list(part.loads)}
    assert part.raw() == list(part.loads)
    assert not any(part.raw() for part in orders.parts(PLANS["curves"].cells))
    # The running kernel is measured once where base and queue both are.
    assert part.count([Variant("running", ALL_KINDS, "", strict=False)]) == 2 * (1 + 4)


def test_an_order_reaches_the_program(tmp_path: Path) -> None:
    variants = (BASE_VARIANT, Variant("running", ALL_KINDS, "", strict=False))
    order = Order(PLANS["full"], variants, "/sbin/cryptsetup", True)
    path = tmp_path / "order.json"
    path.write_text(orders.to_json(order))
    module = str(tmp_path / "variants/base.ko")
    assert orders.read(path) == replace(order, variants=(replace(BASE_VARIANT, module=module), order.variants[1]))
    path.write_text('{"plan": {}}')
    with pytest.raises(UserError, match="is no order to measure"):
        orders.read(path)
