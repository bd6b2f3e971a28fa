"""workloads.py and orders.py: every cell of the workloads is there, and reaches the measuring program."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from dmcrypt_inline.bench.inguest import orders
from dmcrypt_inline.bench.inguest.measurements import MODES, RAW, Load
from dmcrypt_inline.bench.inguest.orders import ALL_KINDS, BASE_KINDS, QUEUE_KINDS, TOGETHER, Order, Variant
from dmcrypt_inline.bench.inguest.stats import ENOUGH
from dmcrypt_inline.bench.inguest.workloads import AES, BASE, BRD, KIB, MIB, NULL, PLANS, QUEUE, Cell, Plan, get_plan
from dmcrypt_inline.common.errors import UserError

SERIES = Variant("series", QUEUE_KINDS, "variants/series.ko", strict=True)
BASE_VARIANT = Variant("base", BASE_KINDS, "variants/base.ko", strict=True)
FULL = PLANS["full"].cells


def loads(workload: str) -> set[Load]:
    return {cell.load for cell in FULL if cell.load.workload == workload}


def modes(load: Load, kind: str) -> set[str]:
    return {cell.mode for cell in FULL if cell.load == load and cell.kind == kind}


def test_no_cell_is_there_twice() -> None:
    for plan in PLANS.values():
        assert len(set(plan.cells)) == len(plan.cells), plan.name


def test_every_load_is_compared_with_the_device_and_the_base() -> None:
    for load in {cell.load for cell in FULL}:
        assert modes(load, RAW) == (set() if load.workload == "curves" else {RAW})
        assert modes(load, BASE) == {"default"}
        assert modes(load, QUEUE) & {"no_read", "both"}


@pytest.mark.parametrize("rw", ["read", "write"])
@pytest.mark.parametrize("size", [4 * KIB, 64 * KIB, MIB])
def test_w1_has_the_posting(rw: str, size: int) -> None:
    load = Load("W1", BRD, NULL, 512, rw, (size, size), 1, 1)
    found = {(cell.load, cell.mode) for cell in PLANS["w1"].cells if cell.kind == QUEUE}
    assert {(load, mode) for mode in ("default", "no_read", "no_write", "both")} <= found
    assert {(replace(load, sector_size=4096), mode) for mode in ("default", "both")} <= found


def test_quick_is_w1_at_4k() -> None:
    assert set(PLANS["quick"].cells) < set(PLANS["w1"].cells)
    assert set(PLANS["quick"].cells) < set(FULL)
    assert {cell.load.block_sizes for cell in PLANS["quick"].cells} == {(4 * KIB, 4 * KIB)}


def test_cost_has_w1_and_the_quick_set_of_w2() -> None:
    cells = {(cell.load, cell.mode) for cell in PLANS["cost"].cells if cell.kind == QUEUE}
    assert cells < {(cell.load, cell.mode) for name in ("w1", "w2") for cell in PLANS[name].cells}
    assert {load for load, _ in cells if load.workload == "W1"} == {
        load for load in (cell.load for cell in PLANS["w1"].cells) if load.sector_size == 512
    }
    assert {(load.cipher, load.rw, mode) for load, mode in cells if load.workload == "W2"} == set(
        product((NULL, AES), ("read", "write"), MODES)
    )


def test_w2_is_the_whole_matrix() -> None:
    for cipher, size, rw in product((NULL, AES), (4 * KIB, 64 * KIB, MIB), ("read", "write")):
        load = Load("W2", BRD, cipher, 512, rw, (size, size), 1, 1)
        assert modes(load, QUEUE) == set(MODES)
    assert len(loads("W2")) == 12


def test_w3_has_schedulers_and_request_sizes() -> None:
    found = loads("W3")
    assert all(load.rw == "randrw" and load.jobs == 11 and load.block_sizes == (256 * KIB,) * 2 for load in found)
    assert {load.scheduler for load in found} == {"", "none", "mq-deadline", "bfq", "kyber"}
    assert {load.max_sectors_kb for load in found} == {0, 4, 8, 64, 1024}


def test_w4_has_fixed_service_times_and_emulated_disks() -> None:
    found = loads("W4")
    assert all((load.rw, load.queue_depth, load.block_sizes) == ("randread", 1, (4 * KIB,) * 2) for load in found)
    devices = {load.device for load in found}
    assert {"null_blk irqmode=2 completion_nsec=10000", "null_blk irqmode=2 completion_nsec=100000"} < devices
    assert {"null_blk irqmode=0", "null_blk irqmode=1", "nvme", "virtio-blk"} < devices


def test_w5_mixes_readers_and_writers_beside_a_load() -> None:
    for load in loads("W5"):
        assert (load.rw, load.jobs, load.cipher) == ("randread,randwrite", 8, AES)
        assert load.block_sizes == (4 * KIB, 128 * KIB)
        assert load.cpu_load > 0


def test_curves_cover_what_was_asked_for() -> None:
    found = loads("curves")
    assert {load.engine for load in found} == {"libaio"}, "two engines on one curve would be two curves"
    at_4k = [load for load in found if load.block_sizes == (4 * KIB, 4 * KIB) and load.sector_size == 512]
    assert {load.queue_depth for load in at_4k if load.jobs == 1} == {1, 8, 64}
    assert {load.jobs for load in at_4k if load.queue_depth == 1} == {1, 2, 8}
    for sector_size in (512, 4096):
        sizes = {load.block_sizes[0] for load in found if load.sector_size == sector_size}
        assert {min(sizes), max(sizes)} == {sector_size, MIB}


def test_time_limits() -> None:
    assert PLANS["quick"].seconds < 3 * 60
    assert PLANS["full"].seconds < 40 * 60
    assert all(plan.rounds >= ENOUGH for plan in PLANS.values())
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
    assert part.modes(BASE_VARIANT) == ("default",)
    assert not part.measures(part.loads[0], BASE_VARIANT, "both")
    assert all(part.has_raw(load) for load in part.loads)
    assert not any(part.has_raw(load) for part in orders.parts(PLANS["curves"].cells) for load in part.loads)
    # The running kernel is measured once where base and queue both are.
    assert part.count([Variant("running", ALL_KINDS, "", strict=False)]) == 2 * (1 + 4)


def test_an_order_reaches_the_program(tmp_path: Path) -> None:
    order = Order(PLANS["full"], (BASE_VARIANT, Variant("running", ALL_KINDS, "", strict=False)), "/sbin/cryptsetup")
    path = tmp_path / "order.json"
    path.write_text(orders.to_json(order))
    module = str(tmp_path / "variants/base.ko")
    assert orders.read(path) == replace(order, variants=(replace(BASE_VARIANT, module=module), order.variants[1]))
    path.write_text('{"plan": {}}')
    with pytest.raises(UserError, match="is no order to measure"):
        orders.read(path)


def test_cells_are_told_apart_by_all_they_have() -> None:
    load = Load("W1", BRD, NULL, 512, "read", (4096, 4096), 1, 1)
    assert len(orders.parts([Cell(load, RAW, RAW), Cell(replace(load, cpu_load=1), RAW, RAW)])) == 2
    assert Plan("x", (), 1.0).within == 0.03
