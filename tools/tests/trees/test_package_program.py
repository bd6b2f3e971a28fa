"""tools/package/dmcrypt-dkms: killed before any change of the disk, and called again, it ends as it says.

The program runs on a small tree in place of the system, and calls stand-ins for the real programs.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dmcrypt_inline.trees.package import DATA, PROGRAM

KERNEL = "6.12.118"
PATCHED = "1.0-inline"
OURS = PATCHED  # the name that scripts outside this repository import; codespell:ignore ours
PLACES = ("/lib/modules", "/boot/", "/var/lib", "/var/tmp", "/run/", "/usr/src", "/sys/", "/proc/sys", "/etc/initramfs")
# The stand-ins. With $COPIES each step that changes the disk $R copies it first, as a power cut there would leave it.
PROGRAMS = Path(__file__).with_name("programs")
REAL = ("cp", "mkdir", "mv", "rm", "rmdir", "sync")


@dataclass(frozen=True)
class State:
    """The module that boots (PATCHED or "original"), the one in /lib/modules, and the note ("": none)."""

    image: str
    placed: str
    note: str


class System:
    """A tree with one kernel, and the programs next to it."""

    def __init__(self, place: Path) -> None:
        self.root, self.programs = place / "root", place / "programs"
        shutil.copytree(PROGRAMS, self.programs)
        (self.programs / "copying").mkdir()
        for name in REAL:
            shutil.copy(PROGRAMS / "real", self.programs / "copying" / name)
        text = re.sub("@[A-Z]+@", "1.0", (DATA / PROGRAM).read_text())
        for name in PLACES:
            text = re.sub(rf"(?<![\w$}}]){name}", f"{self.root}{name}", text)
        text = text.replace("PATH=", f"PATH=${{COPIES:+{self.programs}/copying:}}{self.programs}:", 1)
        (self.programs / PROGRAM).write_text(text)
        (self.programs / PROGRAM).chmod(0o755)
        headers = self.modules / "build/include/generated"
        for path, written in {
            self.modules / "kernel/drivers/md/dm-crypt.ko": f"vermagic {KERNEL}\n",
            self.modules / "chosen": "kernel/drivers/md/dm-crypt.ko\n",
            self.root / f"boot/vmlinuz-{KERNEL}": "",
            self.root / "usr/src/dmcrypt-dkms-1.0/kernels.mk": "highest-6.12 := 118\n",
            self.root / "sys/module/dm_crypt/version": "",
            self.root / "run/none": "",
            self.root / "var/tmp/none": "",
            headers / "package.h": '#define LINUX_PACKAGE_ID " Debian 6.12.118-1"\n',
            headers / "uapi/linux/version.h": "#define LINUX_VERSION_MAJOR 6\n"
            "#define LINUX_VERSION_PATCHLEVEL 12\n#define LINUX_VERSION_SUBLEVEL 118\n",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written)
        shutil.copy(self.modules / "kernel/drivers/md/dm-crypt.ko", self.image)

    @property
    def modules(self) -> Path:
        return self.root / "lib/modules" / KERNEL

    @property
    def image(self) -> Path:
        return self.root / f"boot/initrd.img-{KERNEL}"

    def call(self, what: str, trouble: Mapping[str, str] | None = None) -> int:
        words: list[str | Path] = ["bash", self.programs / PROGRAM, what, KERNEL]
        env = {"R": str(self.root), "PATH": "/usr/bin:/bin", **(trouble or {})}
        return subprocess.run(words, check=False, capture_output=True, env=env).returncode

    def state(self) -> State:
        version = re.compile("^version (.*)$", re.M)
        held = version.search(self.image.read_text())
        placed = self.modules / "updates/drivers/md/dm-crypt.ko"
        note = self.root / "var/lib/dmcrypt-dkms" / KERNEL
        return State(
            held[1] if held else "original",
            ",".join(version.findall(placed.read_text())) if placed.exists() else "",
            note.read_text() if note.exists() else "",
        )


UNFINISHED = (".new", f"initrd.img-{KERNEL}.dmcrypt-dkms")  # files that a killed call leaves
NO_BUILD, NO_ROOM = {"NO_BUILD": "y"}, {"NO_ROOM": "y"}
GONE = State("original", "", "")


def goes_on(system: System, before: Path) -> None:
    """From the tree `before`, each next call ends as it says, and can be repeated."""

    def restored() -> State:
        shutil.rmtree(system.root)
        shutil.copytree(before, system.root, symlinks=True)
        return system.state()

    left = restored()
    assert not left.note.startswith("original: ") or (left.image, left.placed) == ("original", ""), left
    assert system.call("install") == 0
    assert system.state() == State(PATCHED, PATCHED, f"{PATCHED}: built and checked\n"), left
    restored()
    assert system.call("install", NO_BUILD) == 1
    assert system.state() == State("original", "", "original: dkms could not build it, see above\n"), left
    restored()
    assert (system.call("remove", NO_ROOM) == 0) == (left.image == "original"), left
    assert system.state().image == left.image
    assert system.call("remove") == 0
    assert system.state() == GONE, left
    restored()
    assert system.call("remove") == 0
    assert system.state() == GONE, left


@pytest.mark.parametrize("part", [0, 1])
def test_it_can_be_killed_before_any_change(tmp_path: Path, part: int) -> None:
    system = System(tmp_path)
    root, fresh, installed = system.root, tmp_path / "fresh", tmp_path / "installed"
    shutil.copytree(system.root, fresh)
    assert system.call("install") == 0
    shutil.copytree(system.root, installed)
    found: dict[tuple[State, str, bool], dict[str, Path]] = {}  # the trees by state and remaining files
    for before in (fresh, installed):
        for number, (what, trouble) in enumerate((("install", {}), ("install", NO_BUILD), ("remove", {}))):
            shutil.rmtree(system.root)
            shutil.copytree(before, system.root)
            copies = tmp_path / f"{before.name}-{number}"
            copies.mkdir()
            assert system.call(what, {**trouble, "COPIES": str(copies)}) == (1 if trouble else 0)
            made = sorted(copies.iterdir())
            assert len(made) >= (1 if (before, what) == (fresh, "remove") else 3)
            for copy in made:
                system.root = copy / "root"
                unfinished = sorted(path.name for path in system.root.rglob("*") if path.name in UNFINISHED)
                chosen = (system.modules / "chosen").read_text()
                preferred = (system.root / "run/depmod.d/dmcrypt-dkms.conf").exists()
                found.setdefault((system.state(), chosen, preferred), {})[" ".join(unfinished)] = system.root
            system.root = root
    assert len(found) > 8
    groups = [list(trees.values()) for trees in found.values()]
    for first, *others in groups[part::2]:
        goes_on(system, first)
        for before in others:
            shutil.rmtree(system.root)
            shutil.copytree(before, system.root)
            assert system.call("install") == 0
            assert system.state() == State(PATCHED, PATCHED, f"{PATCHED}: built and checked\n")


@pytest.mark.parametrize(
    ("package", "taken"),
    [
        (" Debian 6.12.118-1", True),
        (" Debian 6.12.118-1~bpo12+1", True),
        (" Debian 6.12.118-2~deb12u1", True),
        (" Debian 6.12.118-1+deb13u2", True),
        (" Debian 1:6.12.118-1+rpt1", False),  # Raspberry Pi OS
        (" Debian 6.12.118-1+rpi1", False),
        (" Debian 6.12.118-1kali1", False),
        (" Kali 6.12.118-1kali1", False),
        (" Debian 6.12.118-1parrot1", False),
        (" Proxmox 6.12.118-1", False),
        (" ", False),
    ],
)
def test_only_kernels_of_debian_itself_are_known(tmp_path: Path, package: str, taken: bool) -> None:
    system = System(tmp_path)
    (system.modules / "build/include/generated/package.h").write_text(f'#define LINUX_PACKAGE_ID "{package}"\n')
    assert (system.call("install") == 0) is taken
    assert system.state().image == (PATCHED if taken else "original")
