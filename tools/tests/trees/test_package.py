import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from small import SOURCE, committed, make_queue

from dmcrypt_inline.common.errors import UserError
from dmcrypt_inline.trees import package
from dmcrypt_inline.trees.package import Driver, driver_of, make

DRIVER = Driver("6.12", 118, {"dm-crypt.c": '#include "dm-audit.h"\n', "dm-audit.h": "int audit;\n"}, 1_700_000_000)
LATER = replace(DRIVER, series="7.3", highest=4)


def test_a_tree_gives_its_driver_and_private_headers(tmp_path: Path) -> None:
    queue = committed(make_queue(tmp_path), "Makefile", "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 118\nNAME = x\n")
    queue = committed(queue, "drivers/md/dm-audit.h", DRIVER.files["dm-audit.h"])
    queue = committed(queue, SOURCE, DRIVER.files["dm-crypt.c"])
    driver = driver_of(queue.applied())
    assert replace(driver, made=DRIVER.made) == DRIVER


def test_the_same_drivers_are_the_same_bytes() -> None:
    first = make([DRIVER, LATER], "1.0").read_bytes()
    again = make([DRIVER, LATER], "1.0")
    assert again.read_bytes() == first
    source = again.parent / "root/usr/src/dmcrypt-dkms-1.0"
    assert (source / "kernels.mk").read_text() == "package-version := 1.0\nhighest-6.12 := 118\nhighest-7.3 := 4\n"
    assert (source / "7.3" / "dm-audit.h").read_text() == DRIVER.files["dm-audit.h"]
    assert "@" not in (source / "dkms.conf").read_text()


@pytest.mark.parametrize("version", ["one", "1.0/2"])
def test_a_version_that_dkms_cannot_have_is_refused(version: str) -> None:
    with pytest.raises(UserError):
        make([DRIVER], version)


@pytest.mark.parametrize(("release", "known"), [("6 12 118", True), ("6 12 119", False), ("6 1 1", False)])
def test_kbuild_takes_no_kernel_that_is_not_known(tmp_path: Path, release: str, known: bool) -> None:
    package.write_source(tmp_path, [DRIVER], {"VERSION": "1.0"})
    version, level, sub = release.split()
    words = (f"src={tmp_path}", f"VERSION={version}", f"PATCHLEVEL={level}", f"SUBLEVEL={sub}")
    done = subprocess.run(
        ["make", "-f", tmp_path / "Kbuild", *words, "-n", "dm-crypt.c"], check=False, capture_output=True, text=True
    )
    assert ("no dm-crypt for Linux" in done.stderr) == (not known)
