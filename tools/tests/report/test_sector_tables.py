"""report/sectors.py: the tables of what make bench ACCEL=native measured."""

from __future__ import annotations

import json
from pathlib import Path

from dmcrypt_inline.report.sectors import MODES, chart, text


def test_medians_their_spread_and_ratios_within_a_round(tmp_path: Path) -> None:
    kind = {"form": "safe", "instructions": "vaes_avx2", "cipher": "aes", "sector": 512, "flags": "inline"}
    samples = {
        "raw": [20.0, 22.0, 24.0, 22.0, 22.0],
        "base": [200.0, 100.0, 300.0, 180.0, 220.0],
        "series": [100.0] * 5,
    }
    cells = [
        {**kind, "variant": name, "direction": "read", "size": 65536, "ns_per_512": found}
        for name, found in samples.items()
    ]
    where = {"target": "linux-7.3-fixes", "kernel_release": "7.3.4", "cpu": "a processor"}
    path = tmp_path / "results.json"
    written = [*cells, *({**cell, "direction": "write"} for cell in cells)]
    content = {"environment": where, "baseline": "base", "measuring": ["0001-x.patch"]}
    path.write_text(json.dumps({**content, "cells": written}))
    drawn = chart(path).read_text()
    assert [f'data-panel="sectors-safe-vaes_avx2-{way}"' in drawn for way in ("read", "write")] == [True, True]
    assert [f">{total}<" in drawn for total in (200, 100)] == [True, True]
    path.write_text(json.dumps({**content, "cells": cells}))
    said = text(path)
    assert "For measuring only: 0001-x.patch" in said
    heading, names, row, intervals = said.splitlines()[-4:]
    assert heading == "safe, vaes_avx2, aes, sectors of 512, inline"
    assert names.split() == ["raw", "base", "series"]
    assert row.split() == ["64k", "read", "22.0", "(0)", "200.0", "(20)", "100.0", "(0)", "2.000"]
    assert intervals == "intervals: 100.0 to 100.0 %"  # of five rounds, from the least to the most


def test_a_hand_over_is_held_against_the_flags_round_by_round(tmp_path: Path) -> None:
    cells: list[dict[str, object]] = [
        {
            **{"form": "plain", "instructions": "vaes_avx2", "cipher": "library", "sector": 512, "flags": flags},
            **{"variant": "series", "direction": way, "size": 65536, "threads": 1, "depth": depth},
            **{"ns_per_512": [1000.0, 1000.0], "elapsed_per_512": [took * depth / 8, took]},
        }
        for way in ("read", "write")
        for depth in (1, 8)
        for flags, took in (("default", 100.0), ("read", 100.0), ("write", 200.0), ("inline", 200.0))
    ]
    cells.append({**cells[0], "flags": "default+read+write+inline", "variant": "raw"})
    where = {"target": "linux-7.3-units", "kernel_release": "7.3.4", "cpu": "a processor"}
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"environment": where, "baseline": "series", "measuring": [], "cells": cells}))
    said = text(path).splitlines()
    assert said[6] == "plain, vaes_avx2, library, sectors of 512, series"
    assert said[7].split() == ["threads", "x", "depth", "default", *MODES, "CPU", *MODES]
    ratios = "1.00 (0) 0.50 (0) 0.50 (0) 2.097 (0) 1.00 (0) 1.00 (0) 1.00 (0)"
    assert said[9].split() == f"64k read 1x8 100.0 (0) {ratios}".split()
    assert len(said) == 12
    drawn = chart(path).read_text()
    assert [f'data-panel="plain-{way}"' in drawn for way in ("read", "write")] == [True, True]
    assert "aes 64k" in drawn
