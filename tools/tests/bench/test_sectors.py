"""sectors.py: samples of a guest, instructions of a processor, the name of a target."""

import pytest

from dmcrypt_inline.bench.sectors import TIMES, by_boot, gathered, instructions, renamed
from dmcrypt_inline.common.errors import UserError


def test_samples_become_nanoseconds_of_512_bytes_by_cell() -> None:
    lines = (
        "0 raw read 4096 1 1 8192 320 320\n"
        "0 base:read read 4096 1 8 8192 1600 3200\n"
        "1 base:read read 4096 1 8 8192 800 1600\n"
        "0 base:read read 4096 2 1 8192 160 320\n"
    )
    same = {"direction": "read", "size": 4096}
    mapping = {"variant": "base:read", **same}
    assert gathered(lines) == [
        {"variant": "raw", **same, "threads": 1, "depth": 1, "ns_per_512": [20.0], "elapsed_per_512": [20.0]},
        {**mapping, "threads": 1, "depth": 8, "ns_per_512": [200.0, 100.0], "elapsed_per_512": [100.0, 50.0]},
        {**mapping, "threads": 2, "depth": 1, "ns_per_512": [20.0], "elapsed_per_512": [10.0]},
    ]


def test_a_boot_is_a_sample() -> None:
    def cell(variant: str, *samples: float) -> dict[str, object]:
        return {"variant": variant, **{name: list(samples) for name in TIMES}}

    boots = [[cell("raw", 3.0, 1.0, 2.0), cell("base", 5.0)], [cell("raw", 4.0)]]
    assert by_boot(boots) == [cell("raw", 2.0, 4.0), cell("base", 5.0)]


@pytest.mark.parametrize(
    ("flags", "older", "found"),
    [
        ("aes avx avx2 vaes avx512bw avx512vl", True, ["vaes_avx512", "vaes_avx2", "aesni_avx", "aesni"]),
        ("aes avx avx2 vaes", True, ["vaes_avx2", "aesni_avx", "aesni"]),
        ("aes avx avx2 vaes", False, ["vaes_avx2"]),
        ("aes avx", False, ["aesni_avx"]),
    ],
)
def test_the_instructions_of_the_processor(flags: str, older: bool, found: list[str]) -> None:
    assert instructions(f"model name\t: any\nflags\t\t: fpu {flags}\n", older) == found
    with pytest.raises(UserError, match="no AES instructions"):
        instructions("flags\t\t: fpu avx\n", older)


def test_a_driver_gets_another_target_s_name() -> None:
    source = 'static struct target_type crypt_target = {\n\t.name   = "crypt",\n};\n'
    assert '\t.name   = "crypt3",\n' in renamed(source, "crypt3")
    with pytest.raises(UserError, match="target"):
        renamed(source.replace('"crypt"', "NAME"), "crypt3")
