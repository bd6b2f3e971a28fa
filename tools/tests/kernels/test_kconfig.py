"""Config fragments: parsed, merged, and proved to have taken effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.kernels.kconfig import check_config, declared_options, merge_fragments, parse_config

CONFIG = """\
# Linux/x86 5.10.262 Kernel Configuration
CONFIG_SMP=y
CONFIG_DM_CRYPT=m
CONFIG_NR_CPUS=64
CONFIG_CMDLINE="a=b"
# CONFIG_EXPERT is not set
"""
DECLARED = {"CONFIG_SMP", "CONFIG_DM_CRYPT", "CONFIG_NR_CPUS", "CONFIG_EXPERT", "CONFIG_KASAN"}


def test_parse_config() -> None:
    assert parse_config(CONFIG) == {
        "CONFIG_SMP": "y",
        "CONFIG_DM_CRYPT": "m",
        "CONFIG_NR_CPUS": "64",
        "CONFIG_CMDLINE": '"a=b"',
        "CONFIG_EXPERT": "n",
    }


def test_a_later_fragment_wins(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("CONFIG_A=y\nCONFIG_B=y\nCONFIG_D=y\n")
    (tmp_path / "two").write_text("CONFIG_B=n\n# CONFIG_C is not set\n# CONFIG_D is gone\n")
    merged = merge_fragments([tmp_path / "one", tmp_path / "two"])
    assert merged == {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": "n"}


def test_a_config_that_has_it_all_passes() -> None:
    check_config({"CONFIG_SMP": "y", "CONFIG_EXPERT": "n", "CONFIG_KASAN": "n"}, CONFIG, DECLARED)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("CONFIG_KASAN", "y", "CONFIG_KASAN=y: became n"),
        ("CONFIG_DM_CRYPT", "y", "CONFIG_DM_CRYPT=y: became m"),
        ("CONFIG_SMP", "n", "CONFIG_SMP=n: became y"),
        ("CONFIG_NR_CPUS", "8", "CONFIG_NR_CPUS=8: became 64"),
        ("CONFIG_TYPO", "n", "CONFIG_TYPO=n: this tree has no such option"),
    ],
)
def test_what_did_not_take_effect_is_listed(name: str, value: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        check_config({name: value}, CONFIG, DECLARED)


def test_declared_options(tmp_path: Path) -> None:
    (tmp_path / "Kconfig").write_text("config A\n\tbool\nmenuconfig B\n\ttristate\n# config C\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "Kconfig.debug").write_text("\tconfig D\n")
    assert declared_options(tmp_path) == {"CONFIG_A", "CONFIG_B", "CONFIG_D"}
