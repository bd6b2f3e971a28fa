"""demo.py: what the demonstration says of its figures."""

from __future__ import annotations

import synthetic

from dmcrypt_inline.report import demo, figures


def test_the_plan_has_all_that_the_table_shows() -> None:
    variants = {"queue": "series"}
    cells = [synthetic.measurement(it.load, variants.get(it.kind, it.kind), it.mode) for it in demo.PLAN.cells]
    assert "series, default" in figures.texts(synthetic.results(cells)).cover
