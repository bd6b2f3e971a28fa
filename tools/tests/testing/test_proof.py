"""The table of docs/proof.md, and mutants that only one proof catches."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from dmcrypt_inline.common.counts import Counts
from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.testing import proof
from dmcrypt_inline.testing.mutants import all_mutants, named, read_mutant
from dmcrypt_inline.trees.targets import TARGETS

TOP = "# Proof\n\n| WHAT | what |\n|---|---|\n| `rt` | x |\n\n| queue | proof |\n|---|---|\n"


def test_a_proof_replaces_its_own_row_and_keeps_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "proof.md"
    table.write_text(f"{TOP}| linux-5.8 | rt | old |\n| linux-5.8 | fuzz | kept |\n\nFindings.\n")
    monkeypatch.setattr(proof, "TABLE", table)
    monkeypatch.setattr(proof, "resolve", lambda *_: "0123456789abcdef")
    tree = SimpleNamespace(target=TARGETS["linux-5.8"], path=tmp_path, series="queue")
    machine = SimpleNamespace(tree=tree, kernel=SimpleNamespace(release="5.10"))
    proof.record("rt", machine, Counts(3, 0, 1), 120.0)  # type: ignore[arg-type]
    date = table.read_text().split("| rt | ")[1][:10]
    row = f"| linux-5.8 | rt | {date} | 5.10 | 0123456789ab | 2 | 3 | 0 | 1 |\n"
    assert table.read_text() == f"{TOP}| linux-5.8 | fuzz | kept |\n{row}\nFindings.\n"
    with pytest.raises(UserError, match="no test passed"):
        proof.record("rt", machine, Counts(0, 0, 9), 120.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["rt", "kcsan"])
def test_a_mutant_of_a_proof_is_none_of_make_mutants(tmp_path: Path, kind: str) -> None:
    patch = tmp_path / "wrong.patch"
    patch.write_text(f"Wrong.\n\nTrips {kind}: table\n---\n")
    assert read_mutant(patch).proof == kind
    target = TARGETS["linux-7.3-fixes"]
    assert {mutant.proof for mutant in all_mutants(target)} > {"", kind}
    assert {mutant.proof for mutant in named(target, [])} == {""}
