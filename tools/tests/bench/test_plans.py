"""plans.py and measure.py: cells and job files of the plans, variants by name, emulated disks."""

import re
import subprocess
from pathlib import Path

import pytest

from dmcrypt_inline.bench.inguest import DISKS, MODES, SERIAL, SIZE
from dmcrypt_inline.bench.measure import JOBS, emulated_disks
from dmcrypt_inline.bench.plans import PLANS, W1


@pytest.mark.parametrize("path", sorted(JOBS.glob("*.fio")), ids=lambda path: str(path.name))
def test_fio_takes_the_job_files(path: Path) -> None:
    by_hand = {"PATH": "/usr/bin:/bin", "DEVICE": "/dev/nowhere", "RUNTIME": "1s"}
    done = subprocess.run(["fio", "--parse-only", path], env=by_hand, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_part_names_a_job_file_and_its_sections() -> None:
    for plan in PLANS.values():
        for part in plan.parts:
            found = re.findall(r"^\[(.+)\]", (JOBS / part.jobs).read_text(), re.M)
            assert set(part.sections) <= set(found)
            assert set(part.modes) <= MODES.keys()
        names = [(part.workload, part.setting) for part in plan.parts]
        assert len(names) == len(set(names))


def test_a_base_with_the_flags_is_measured_in_all_modes() -> None:
    cells = W1[1].runs(("base", "series"), base_has_flags=True)
    assert cells[1:] == [(name, mode) for name in ("base", "series") for mode in ("default", "both")]


def test_the_disks_have_the_serial_number_that_the_guest_checks(tmp_path: Path) -> None:
    with emulated_disks(tmp_path) as arguments:
        assert [disk.stat().st_size for disk in tmp_path.iterdir()] == [SIZE] * len(DISKS)
        assert sum(f"serial={SERIAL}" in word for word in arguments) == len(DISKS)
    assert not list(tmp_path.iterdir())
