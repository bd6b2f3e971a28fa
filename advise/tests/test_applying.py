"""advise --apply and --undo: what is called, changed, kept, refused and taken back."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from dmcrypt_advise import applying, command, judge, looking
from dmcrypt_advise.applying import Person
from dmcrypt_advise.errors import AdviseError
from dmcrypt_advise.mappings import OPTIONS
from dmcrypt_advise.planning import State, taken_back, with_words
from dmcrypt_advise.system import System
from machines import archive, machine

TABLE = "dmsetup table --target crypt"
LUKS1 = "ubuntu-22.04-raid"
UUID = "11111111-2222-3333-4444-555555555555"
NAME = "nvme0n1p3_crypt"
KEPT = "var/lib/dmcrypt-advise"
DUMP = "cryptsetup luksDump /dev/nvme0n1p3"
READ, WRITE = "--perf-no_read_workqueue", "--perf-no_write_workqueue"


class Cryptsetup:
    """A machine whose `cryptsetup refresh` does what the real one does to table and header."""

    def __init__(self, system: System, fails_at: int = 0) -> None:
        self.said: dict[str, str] = dict(system.recorded or {})
        self.system = replace(system, recorded=self.said)
        self.calls: list[list[str]] = []
        self.told: list[str] = []
        self.fails_at = fails_at

    def person(self, answer: str = "yes", key_file: str = "") -> Person:
        """Somebody who answers this."""
        return Person(self.told.append, lambda _: answer, key_file, self.call)

    def call(self, argv: Sequence[str]) -> int:
        """Table and header after a refresh: options given, and without --persistent those of the header too."""
        self.calls.append(list(argv))
        if len(self.calls) == self.fails_at:
            return 2
        given = [word for word, (option, _, _) in OPTIONS.items() if option in argv]
        if "--persistent" in argv:
            self.said[DUMP] = f"UUID: {UUID}\nFlags: " + " ".join(OPTIONS[word][1] for word in given)
        kept = [word for word, (_, name, _) in OPTIONS.items() if name in self.said.get(DUMP, "")]
        words = sorted({*given, *kept})
        base = self.said[TABLE].split()[:9]
        self.said[TABLE] = " ".join([*base, str(len(words)), *words]) + "\n"
        return 0


@pytest.fixture
def luks2(tmp_path: Path) -> Cryptsetup:
    """A laptop with discards that only its crypttab has, and a disk with one queue."""
    return Cryptsetup(machine("debian-12-laptop", tmp_path, {"/nvme0n1/mq/1/": "/nvme0n1/other/"}))


def files(place: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_luks2_keeps_every_flag_where_it_was_and_is_taken_back(luks2: Cryptsetup, tmp_path: Path) -> None:
    before, said, kept = files(tmp_path), dict(luks2.said), tmp_path / KEPT
    kept.mkdir(parents=True)
    kept.chmod(0o777)
    umask = os.umask(0)
    try:
        applying.apply(luks2.system, NAME, luks2.person(key_file="/etc/keys/data"))
    finally:
        os.umask(umask)
    key = ["--key-file", "/etc/keys/data"]
    assert luks2.calls == [
        ["cryptsetup", "refresh", NAME, "--persistent", READ, WRITE, *key],
        ["cryptsetup", "refresh", NAME, "--allow-discards", READ, WRITE, *key],
    ]
    modes = [stat.S_IMODE(place.stat().st_mode) for place in (kept, kept / NAME, kept / NAME / "state.json")]
    assert modes == [0o700, 0o700, 0o600]
    with pytest.raises(AdviseError, match="nothing was changed"):
        applying.apply(luks2.system, NAME, luks2.person())
    applying.undo(luks2.system, NAME, luks2.person())
    assert files(tmp_path) == before
    assert luks2.said[TABLE].split() == said[TABLE].split()
    assert luks2.said[DUMP].split() == ["UUID:", UUID, "Flags:"]


REMOVE = "remove no-read-workqueue from its options on the kernel's command line"
TAB_HAS_IT = {"luks,discard": "luks,no-read-workqueue,discard"}


@pytest.mark.parametrize(
    ("changed", "calls"),
    [
        ({"(no flags)": "no-read-workqueue"}, [["--persistent"], ["--allow-discards"]]),
        (TAB_HAS_IT, []),
        ({**TAB_HAS_IT, "queue/rotational <==\n0": "queue/rotational <==\n1"}, []),
        ({**TAB_HAS_IT, " ro quiet": f" rd.luks.options={UUID}=discard"}, []),
    ],
)
def test_an_unsafe_flag_that_is_only_stored_is_taken_back(
    tmp_path: Path, changed: dict[str, str], calls: list[list[str]]
) -> None:
    made = Cryptsetup(machine("debian-12-laptop", tmp_path, {"6.1.119-1": "6.1.50-1", **changed}))
    [verdict] = judge.judge(looking.look(made.system))
    assert (verdict.advice, set(verdict.flags), verdict.status) == (judge.TAKE_BACK, {"no_read_workqueue"}, 1)
    applying.apply(made.system, NAME, made.person())
    assert [call[3:] for call in made.calls] == calls
    assert made.said[TABLE].split()[9:] == ["1", "allow_discards"]
    assert (tmp_path / "etc/crypttab").read_text().split()[3] == "luks,discard"
    assert "no_read_workqueue" not in judge.judge(looking.look(made.system))[0].flags


@pytest.mark.parametrize(
    ("line", "image", "left"),
    [
        (f"rd.luks.options={UUID}=no-read-workqueue", "", REMOVE),
        (f"cryptdevice=UUID={UUID}:x:no-read-workqueue", "", REMOVE),
        ("quiet", "no-read-workqueue", "update-initramfs -u"),
    ],
)
def test_a_flag_that_would_come_back_with_the_next_boot_is_said(
    tmp_path: Path, line: str, image: str, left: str
) -> None:
    changed = {"6.1.119-1": "6.1.50-1", "1 allow_discards": "1 no_read_workqueue", " quiet": f" {line}"}
    made = Cryptsetup(machine("debian-12-laptop", tmp_path, changed))
    if image:
        (tmp_path / "boot").mkdir()
        packed = archive(**{"cryptroot/crypttab": f"{NAME} UUID={UUID} none {image}\n"})
        (tmp_path / "boot/initrd.img-6.1.0-28-amd64").write_bytes(packed)
    [verdict] = judge.judge(looking.look(made.system))
    assert (verdict.advice, verdict.do[-1]) == (judge.TAKE_BACK, left)
    applying.apply(made.system, NAME, made.person())
    assert made.told[-1] == f"left to do by hand, for the next boot: {left}"
    assert made.said[TABLE].split()[9:] == ["0"]
    [verdict] = judge.judge(looking.look(made.system))
    assert (verdict.advice, verdict.do) == (judge.TAKE_BACK, (left,))
    with pytest.raises(AdviseError, match=f"nothing here that could be changed(.|\n)*{left}"):
        applying.apply(made.system, NAME, made.person())
    applying.undo(made.system, NAME, made.person())
    assert not made.told[-1].startswith("left")


def test_flags_that_the_command_line_keeps_out_are_said(luks1: Cryptsetup, tmp_path: Path) -> None:
    (tmp_path / "proc/cmdline").write_text("rd.luks.options=99999999-2222-3333-4444-555555555555=discard")
    applying.apply(luks1.system, "data", luks1.person())
    assert luks1.told[-1].endswith("add no-write-workqueue to its options on the kernel's command line")


@pytest.mark.parametrize(
    ("image", "crypttab", "command"),
    [
        ("initrd.img-5.15.0-91-generic", "cryptroot/crypttab", "update-initramfs -u"),
        ("initrd.img-5.15.0-91-generic", "etc/crypttab", "dracut --force /boot/initrd.img-5.15.0-91-generic"),
        ("initramfs-5.15.0-91-generic.img", "etc/crypttab", "dracut --force"),
        ("initramfs-linux-lts.img", "etc/crypttab", "mkinitcpio -P"),
    ],
)
def test_an_initramfs_with_a_copy_of_crypttab_is_to_be_made_again(
    luks1: Cryptsetup, tmp_path: Path, image: str, crypttab: str, command: str
) -> None:
    for name, content in (
        ("usr/lib/modules/5.15.0-91-generic/pkgbase", b"linux-lts"),
        (f"boot/{image}", archive(**{crypttab: "data /dev/md0 none luks\n"})),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    [verdict] = judge.judge(looking.look(luks1.system))
    assert (verdict.do[-1], verdict.undo[-1]) == (command, command)
    for change in (applying.apply, applying.undo):
        change(luks1.system, "data", luks1.person())
        assert luks1.told[-1] == f"left to do by hand, for the next boot: {command}"


def test_the_crypttab_of_mkinitcpio_s_initramfs_is_the_one_that_counts(luks1: Cryptsetup, tmp_path: Path) -> None:
    line, tab = "data /dev/md0 none luks", tmp_path / "etc/crypttab.initramfs"
    before = (tmp_path / "etc/crypttab").read_bytes()
    for name, content in (
        ("usr/lib/modules/5.15.0-91-generic/pkgbase", b"linux"),
        ("boot/initramfs-linux.img", archive(**{"etc/crypttab": f"{line},discard\n"})),
        ("etc/crypttab.initramfs", f"{line}\n".encode()),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    [verdict] = judge.judge(looking.look(luks1.system))
    text = "the initramfs has allow_discards, /etc/crypttab.initramfs no flags: mkinitcpio -P"
    assert text in verdict.conflicts
    assert verdict.do[1:] == ("/etc/crypttab.initramfs, options of data: no-write-workqueue", "mkinitcpio -P")
    applying.apply(luks1.system, "data", luks1.person())
    assert tab.read_text() == f"{line},no-write-workqueue\n"
    applying.undo(luks1.system, "data", luks1.person())
    assert (tab.read_text(), (tmp_path / "etc/crypttab").read_bytes()) == (f"{line}\n", before)


def test_a_key_that_is_not_in_the_keyring_stays_out_of_it(tmp_path: Path) -> None:
    changed = {":64:logon:cryptsetup:11111111-2222-3333-4444-555555555555-d0": "0" * 128}
    luks2 = Cryptsetup(machine("debian-12-laptop", tmp_path, changed))
    applying.apply(luks2.system, NAME, luks2.person())
    assert all("--disable-keyring" in call for call in luks2.calls)


def test_luks1_keeps_them_in_crypttab(tmp_path: Path) -> None:
    luks1 = Cryptsetup(machine(LUKS1, tmp_path))
    before = files(tmp_path)
    (tmp_path / "etc/crypttab").chmod(0o640)
    applying.apply(luks1.system, "data", luks1.person())
    assert luks1.calls == [["cryptsetup", "refresh", "data", WRITE]]
    crypttab = (tmp_path / "etc/crypttab").read_text().splitlines()
    assert crypttab == [
        "# <target name> <source device> <key file> <options>",
        "data	/dev/md0	/etc/keys/data	luks,no-write-workqueue",
    ]
    assert stat.S_IMODE((tmp_path / "etc/crypttab").stat().st_mode) == 0o640
    applying.undo(luks1.system, "data", luks1.person())
    assert files(tmp_path) == before


@pytest.fixture
def luks1(tmp_path: Path) -> Cryptsetup:
    """A RAID whose flags only crypttab can keep, with a comment that is no UTF-8 and has odd ends of lines."""
    made = Cryptsetup(machine(LUKS1, tmp_path))
    crypttab = tmp_path / "etc/crypttab"
    crypttab.write_bytes(
        b"# gr\xfcn \xe2\x80\xa8 \x0c\n" + crypttab.read_bytes().replace(b"luks\n", b"luks,,x\r\n") + b"# last"
    )
    return made


def edits(crypttab: Path, old: str, new: str) -> None:
    """Somebody edits crypttab."""
    text = crypttab.read_bytes()
    assert old.encode() in text
    crypttab.write_bytes(text.replace(old.encode(), new.encode()))


def test_every_byte_of_crypttab_stays(luks1: Cryptsetup, tmp_path: Path) -> None:
    crypttab = tmp_path / "etc/crypttab"
    before = crypttab.read_bytes()
    applying.apply(luks1.system, "data", luks1.person())
    assert crypttab.read_bytes() == before.replace(b"luks,,x\r", b"luks,x,no-write-workqueue\r")
    assert (tmp_path / KEPT / "data/crypttab.before").read_bytes() == before
    applying.undo(luks1.system, "data", luks1.person())
    assert crypttab.read_bytes() == before


def test_a_line_that_is_no_utf_8_can_be_said(luks1: Cryptsetup, tmp_path: Path) -> None:
    crypttab = tmp_path / "etc/crypttab"
    crypttab.write_bytes(crypttab.read_bytes().replace(b"keys/data", b"keys/\xe9"))
    before = crypttab.read_bytes()
    applying.apply(luks1.system, "data", luks1.person())
    applying.undo(luks1.system, "data", luks1.person())
    assert ["keys/\ufffd" in line for line in luks1.told if line.encode()] == [False, False, True, False]
    assert crypttab.read_bytes() == before


def test_what_was_edited_in_crypttab_since_stays(luks1: Cryptsetup, tmp_path: Path) -> None:
    crypttab = tmp_path / "etc/crypttab"
    before = crypttab.read_bytes()
    applying.apply(luks1.system, "data", luks1.person())
    edits(crypttab, "# last", "other /dev/sdz none luks\n")
    edits(crypttab, "# <target", "first /dev/sdy none luks\n# <target")
    elsewhere = crypttab.read_bytes()
    applying.undo(luks1.system, "data", luks1.person())
    assert crypttab.read_bytes() == elsewhere.replace(b"luks,x,no-write-workqueue\r", b"luks,,x\r")
    crypttab.write_bytes(before)
    applying.apply(luks1.system, "data", luks1.person())
    edits(crypttab, "luks,x,no", "luks,discard,no")
    applying.undo(luks1.system, "data", luks1.person())
    assert crypttab.read_bytes() == before.replace(b"luks,,x\r", b"luks,discard\r")
    assert "/etc/crypttab: data\t/dev/md0\t/etc/keys/data\tluks,discard\r" in luks1.told[-2]


def test_crypttab_is_left_alone_where_it_was_edited_before_the_answer(luks1: Cryptsetup, tmp_path: Path) -> None:
    crypttab = tmp_path / "etc/crypttab"

    def answer(_: str) -> str:
        edits(crypttab, "# last", "# mine")
        return "yes"

    with pytest.raises(AdviseError, match="edited meanwhile"):
        applying.apply(luks1.system, "data", replace(luks1.person(), confirm=answer))
    assert (luks1.calls, (tmp_path / KEPT / "data").exists()) == ([], False)
    assert crypttab.read_bytes().endswith(b"# mine")


@pytest.mark.parametrize("status", [0, 2])
def test_crypttab_is_left_alone_where_it_was_edited_during_the_passphrase(
    luks1: Cryptsetup, tmp_path: Path, status: int
) -> None:
    crypttab, before = tmp_path / "etc/crypttab", (tmp_path / "etc/crypttab").read_bytes()

    def call(argv: Sequence[str]) -> int:
        edits(crypttab, "# gr", "first /dev/sdy none luks\n# gr")
        return status or luks1.call(argv)

    with pytest.raises(AdviseError, match="--undo data"):
        applying.apply(luks1.system, "data", replace(luks1.person(), call=call))
    assert crypttab.read_bytes() == before.replace(b"# gr", b"first /dev/sdy none luks\n# gr")
    assert (tmp_path / KEPT / "data/crypttab.before").read_bytes() == before
    applying.undo(luks1.system, "data", luks1.person())
    assert luks1.said[TABLE].split()[9:] in ([], ["0"])
    assert not (tmp_path / KEPT / "data").exists()


def test_crypttab_is_left_alone_where_it_is_not_the_one_that_was_looked_at(
    luks1: Cryptsetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = judge.judge

    def edited(facts: looking.Facts) -> tuple[judge.Verdict, ...]:
        edits(tmp_path / "etc/crypttab", "# gr", "first /dev/sdy none luks\n# gr")
        return judges(facts)

    monkeypatch.setattr(judge, "judge", edited)
    with pytest.raises(AdviseError, match="edited just now"):
        applying.apply(luks1.system, "data", luks1.person())


def test_a_crypttab_that_is_a_link_stays_one(luks1: Cryptsetup, tmp_path: Path) -> None:
    crypttab = tmp_path / "etc/crypttab"
    crypttab.rename(tmp_path / "real")
    crypttab.symlink_to(tmp_path / "real")
    applying.apply(luks1.system, "data", luks1.person())
    assert crypttab.is_symlink()
    assert b"no-write-workqueue" in (tmp_path / "real").read_bytes()


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"before": 1', None])
def test_what_is_kept_and_damaged_is_said_and_touches_nothing(
    luks1: Cryptsetup, tmp_path: Path, damage: str | None
) -> None:
    applying.apply(luks1.system, "data", luks1.person())
    kept, crypttab = tmp_path / KEPT / "data", (tmp_path / "etc/crypttab").read_bytes()
    (kept / "state.json").unlink()
    if damage is not None:
        (kept / "state.json").write_text(damage)
    with pytest.raises(AdviseError, match=r"take back by hand .*, then remove it"):
        applying.undo(luks1.system, "data", luks1.person())
    assert (len(luks1.calls), (tmp_path / "etc/crypttab").read_bytes()) == (1, crypttab)


def test_an_emptied_copy_of_crypttab_is_not_written(luks1: Cryptsetup, tmp_path: Path) -> None:
    before = (tmp_path / "etc/crypttab").read_bytes()
    applying.apply(luks1.system, "data", luks1.person())
    (tmp_path / KEPT / "data/crypttab.before").write_bytes(b"")
    applying.undo(luks1.system, "data", luks1.person())
    assert (tmp_path / "etc/crypttab").read_bytes() == before


def test_all_is_kept_on_the_disk_before_the_first_call(
    luks1: Cryptsetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []
    sync = os.fsync

    def fsync(number: int) -> None:
        sync(number)
        path = Path(f"/proc/self/fd/{number}").readlink()
        synced.append((path.name, 0 if path.is_dir() else path.stat().st_size))

    def call(argv: Sequence[str]) -> int:
        kept = files(tmp_path / KEPT / "data")
        sizes = {Path(name).name: len(content) for name, content in kept.items()}
        assert set(sizes) == {"state.json", "crypttab.before"}
        assert dict(synced[:2]) == sizes
        assert [name for name, _ in synced[2:]] == [".data.dmcrypt-advise", "dmcrypt-advise"]
        return luks1.call(argv)

    monkeypatch.setattr(os, "fsync", fsync)
    applying.apply(luks1.system, "data", replace(luks1.person(), call=call))
    assert synced[4:] == [(".crypttab.dmcrypt-advise", len((tmp_path / "etc/crypttab").read_bytes())), ("etc", 0)]


@pytest.mark.parametrize("at", range(1, 6))
def test_a_full_disk_is_said(luks1: Cryptsetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    done, before = [], files(tmp_path)
    sync = os.fsync

    def full(number: int) -> None:
        done.append(number)
        if len(done) == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(number)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AdviseError, match="No space left on device"):
        applying.apply(luks1.system, "data", luks1.person())
    assert (tmp_path / "etc/crypttab").read_bytes() == before[str(tmp_path / "etc/crypttab")]
    assert len(luks1.calls) == (at == 5)
    assert sorted(path.name for path in (tmp_path / "etc").iterdir()) == ["crypttab"]
    if at < 4:  # else it was in place already
        applying.apply(luks1.system, "data", luks1.person())
    applying.undo(luks1.system, "data", luks1.person())
    assert (tmp_path / "etc/crypttab").read_bytes() == before[str(tmp_path / "etc/crypttab")]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sys/block/dm-0/dm/uuid", "9999", "8888"),
        ("sys/block/dm-0/dm/uuid", "LUKS1", "PLAIN"),
        ("sys/block/dm-0/dm/uuid", "CRYPT-LUKS1-99999999222233334444555555555555", "CRYPT-PLAIN"),
    ],
)
def test_what_is_kept_is_for_one_volume(luks1: Cryptsetup, tmp_path: Path, name: str, old: str, new: str) -> None:
    applying.apply(luks1.system, "data", luks1.person())
    edits(tmp_path / name, old, new)
    with pytest.raises(AdviseError, match="but kept was"):
        applying.undo(luks1.system, "data", luks1.person())
    assert len(luks1.calls) == 1


def test_a_volume_without_uuid_is_told_by_its_device(luks1: Cryptsetup, tmp_path: Path) -> None:
    edits(tmp_path / "sys/block/dm-0/dm/uuid", "LUKS1-99999999222233334444555555555555", "PLAIN")
    applying.apply(luks1.system, "data", luks1.person())
    assert "no-write-workqueue" in (tmp_path / "etc/crypttab").read_text(errors="replace")
    luks1.said[TABLE] = luks1.said[TABLE].replace(" 9:0 ", " 9:1 ")
    with pytest.raises(AdviseError, match="but kept was"):
        applying.undo(luks1.system, "data", luks1.person())
    luks1.said[TABLE] = luks1.said[TABLE].replace(" 9:1 ", " 9:0 ")
    applying.undo(luks1.system, "data", luks1.person())
    assert luks1.calls == []


@pytest.mark.parametrize(
    ("dump", "why"),
    [
        (f"UUID: {UUID}\nFlags: no-read-workqueue\nRequirements:\tonline-reencrypt\n", "online-reencrypt"),
        ("UUID: other\nFlags: no-read-workqueue\n", "could not be read"),
    ],
)
def test_a_header_that_is_not_to_be_touched(luks2: Cryptsetup, dump: str, why: str) -> None:
    applying.apply(luks2.system, NAME, luks2.person())
    luks2.said[DUMP] = dump
    with pytest.raises(AdviseError, match=why):
        applying.undo(luks2.system, NAME, luks2.person())
    assert len(luks2.calls) == 2


def test_what_was_stored_by_hand_since_stays(luks2: Cryptsetup) -> None:
    applying.apply(luks2.system, NAME, luks2.person())
    luks2.call(["--persistent", "--allow-discards", "--perf-same_cpu_crypt", READ, WRITE])
    applying.undo(luks2.system, NAME, luks2.person())
    assert luks2.said[TABLE].split()[10:] == ["allow_discards", "same_cpu_crypt"]
    assert luks2.said[DUMP].split()[3:] == ["allow-discards", "same-cpu-crypt"]


def test_what_was_set_by_hand_since_stays(luks2: Cryptsetup) -> None:
    applying.apply(luks2.system, NAME, luks2.person())
    luks2.call(["--perf-same_cpu_crypt", READ, WRITE])
    applying.undo(luks2.system, NAME, luks2.person())
    assert luks2.said[TABLE].split()[9:] == ["1", "same_cpu_crypt"]


def test_what_was_taken_away_comes_back() -> None:
    words, none = frozenset({"no_read_workqueue"}), frozenset[str]()
    before, after = State(words, words, words), State(none, none, none)
    assert taken_back(after, before, after, whole=True) == before


def test_where_nothing_is_to_be_taken_back_the_header_s_words_stay_out_of_force(tmp_path: Path) -> None:
    made = in_header(tmp_path, "")
    before = dict(made.said)
    applying.apply(made.system, NAME, made.person())
    made.said.update(before)
    calls = len(made.calls)
    applying.undo(made.system, NAME, made.person())
    assert (len(made.calls), made.said) == (calls, before)


def test_a_table_that_did_not_take_it_is_seen(luks1: Cryptsetup) -> None:
    with pytest.raises(AdviseError, match=r"wanted in force no_write.*; found in force no flags"):
        applying.apply(luks1.system, "data", replace(luks1.person(), call=lambda _: 0))


def test_what_was_taken_back_by_hand_needs_no_call(luks2: Cryptsetup, tmp_path: Path) -> None:
    before = dict(luks2.said)
    applying.apply(luks2.system, NAME, luks2.person())
    luks2.said.update(before)
    applying.undo(luks2.system, NAME, luks2.person())
    assert (len(luks2.calls), (tmp_path / KEPT / NAME).exists()) == (2, False)


@pytest.mark.parametrize("undo", [False, True])
def test_a_word_that_was_lost_half_way_comes_back(luks2: Cryptsetup, undo: bool) -> None:
    if undo:
        applying.apply(luks2.system, NAME, luks2.person())
    luks2.fails_at = len(luks2.calls) + 2
    with pytest.raises(AdviseError, match="exit status 2"):
        (applying.undo if undo else applying.apply)(luks2.system, NAME, luks2.person())
    assert "allow_discards" not in luks2.said[TABLE]
    applying.undo(luks2.system, NAME, luks2.person())
    assert luks2.said[TABLE].split()[9:] == ["1", "allow_discards"]


def in_header(place: Path, table: str) -> Cryptsetup:
    """The laptop with discards in its header, and this at the end of its table."""
    changed = {"(no flags)": "allow-discards", " 1 allow_discards": table, "/nvme0n1/mq/1/": "/nvme0n1/other/"}
    return Cryptsetup(machine("debian-12-laptop", place, changed))


def test_words_of_the_header_stay_in_it(tmp_path: Path) -> None:
    made = in_header(tmp_path, " 1 allow_discards")
    applying.apply(made.system, NAME, made.person())
    assert made.calls == [["cryptsetup", "refresh", NAME, "--persistent", "--allow-discards", READ, WRITE]]
    applying.undo(made.system, NAME, made.person())
    assert made.said[DUMP].split()[3:] == ["allow-discards"]


def test_a_word_of_the_header_that_is_not_in_force_comes_into_force_and_that_is_said(tmp_path: Path) -> None:
    made = in_header(tmp_path, "")
    applying.apply(made.system, NAME, made.person())
    assert "in force then, as the header has it: allow_discards" in made.told[0]
    assert made.said[TABLE].split()[10:] == ["allow_discards", "no_read_workqueue", "no_write_workqueue"]
    applying.undo(made.system, NAME, made.person())
    assert made.said[TABLE].split()[9:] == ["1", "allow_discards"]
    assert made.said[DUMP].split()[3:] == ["allow-discards"]


def test_cryptsetup_is_looked_for_where_others_are(luks1: Cryptsetup, monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    def run(argv: Sequence[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        paths.append(env["PATH"])
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("PATH", "/usr/bin")
    System().ask(("cryptsetup", "luksDump"), "x")
    assert applying.call_on_terminal(["cryptsetup"]) == 0
    assert paths == ["/usr/bin:/usr/sbin:/sbin"] * 2


def test_without_cryptsetup_nothing_stays_kept(
    luks1: Cryptsetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(subprocess, "run", run)
    before = files(tmp_path)
    with pytest.raises(AdviseError, match="cannot run cryptsetup: No such file"):
        applying.apply(luks1.system, "data", replace(luks1.person(), call=applying.call_on_terminal))
    assert (files(tmp_path), list((tmp_path / KEPT).iterdir())) == (before, [])


def test_cryptsetup_ends_by_itself_when_interrupted(tmp_path: Path) -> None:
    before, interrupt = signal.getsignal(signal.SIGINT), threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        applying.call_on_terminal(["sh", "-c", f"sleep 0.8; : >{tmp_path}/whole"])
    assert (tmp_path / "whole").exists()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("at", "left"), [(1, False), (2, True)])
def test_an_interrupt_leaves_nothing_or_the_way_back(luks2: Cryptsetup, tmp_path: Path, at: int, left: bool) -> None:
    def call(argv: Sequence[str]) -> int:
        if len(luks2.calls) + 1 == at:
            raise KeyboardInterrupt
        return luks2.call(argv)

    with pytest.raises(KeyboardInterrupt):
        applying.apply(luks2.system, NAME, replace(luks2.person(), call=call))
    assert (tmp_path / KEPT / NAME).exists() == left
    assert (luks2.told[-1] == f"interrupted: advise --undo {NAME} takes back what was changed") == left
    if left:
        applying.undo(luks2.system, NAME, luks2.person())
        assert luks2.said[TABLE].split()[9:] == ["1", "allow_discards"]


def test_an_interrupted_undo_goes_on(luks2: Cryptsetup, tmp_path: Path) -> None:
    def call(argv: Sequence[str]) -> int:
        raise KeyboardInterrupt

    applying.apply(luks2.system, NAME, luks2.person())
    with pytest.raises(KeyboardInterrupt):
        applying.undo(luks2.system, NAME, replace(luks2.person(), call=call))
    assert luks2.told[-1] == f"interrupted: advise --undo {NAME} goes on with it"
    applying.undo(luks2.system, NAME, luks2.person())
    assert luks2.said[TABLE].split()[9:] == ["1", "allow_discards"]
    assert not (tmp_path / KEPT / NAME).exists()


@pytest.mark.parametrize("answer", ["", "y", "YES"])
def test_nothing_is_done_without_the_word(luks2: Cryptsetup, tmp_path: Path, answer: str) -> None:
    before = files(tmp_path)
    with pytest.raises(AdviseError, match="not confirmed"):
        applying.apply(luks2.system, NAME, luks2.person(answer))
    assert (luks2.calls, files(tmp_path)) == ([], before)


@pytest.mark.parametrize(("fails_at", "left"), [(1, False), (2, True)])
def test_a_refresh_that_fails_leaves_nothing_or_the_way_back(tmp_path: Path, fails_at: int, left: bool) -> None:
    fails = Cryptsetup(machine("debian-12-laptop", tmp_path), fails_at)
    with pytest.raises(AdviseError, match="--undo" if left else "exit status 2$"):
        applying.apply(fails.system, NAME, fails.person())
    assert (tmp_path / "var/lib/dmcrypt-advise" / NAME).exists() == left


def test_what_came_out_is_looked_at(luks2: Cryptsetup) -> None:
    deaf = replace(luks2.person(), call=lambda _: 0)
    with pytest.raises(AdviseError, match=r"wanted in force .*; found in force allow_discards"):
        applying.apply(luks2.system, NAME, deaf)
    applying.apply(luks2.system, NAME, luks2.person())
    with pytest.raises(AdviseError, match=r"wanted in force allow_discards; .*; found in force .*no_read_workqueue"):
        applying.undo(luks2.system, NAME, deaf)
    applying.undo(luks2.system, NAME, luks2.person())


def test_a_header_that_did_not_take_it_is_seen(luks2: Cryptsetup) -> None:
    forgets = replace(luks2.person(), call=lambda argv: luks2.call([word for word in argv if word != "--persistent"]))
    with pytest.raises(AdviseError, match=r"wanted .* in the header no_read.*; found .* in the header no flags"):
        applying.apply(luks2.system, NAME, forgets)


def test_a_crypttab_that_did_not_take_it_is_seen(luks1: Cryptsetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_replace", lambda *_: None)
    with pytest.raises(AdviseError, match=r"wanted .* in crypttab no_write.*; found .* in crypttab no flags"):
        applying.apply(luks1.system, "data", luks1.person())


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("debian-12-laptop", {"aes-xts-plain64": "aes-cbc-eboiv"}, "crypto queue is full"),
        ("debian-12-laptop", {"v1.24.0": "v1.21.0"}, "does not know the flags"),
        (
            "debian-12-laptop",
            {"6.1.119-1": "6.1.50-1", "1 allow_discards": "1 no_read_workqueue", "(no flags)": "no-journal"},
            "the header says no-journal",
        ),
        (LUKS1, {"\ndata\t": "\nother\t", "CRYPT-LUKS1-99": "CRYPT-BITLK-99"}, "nothing here that could be changed"),
    ],
)
def test_it_refuses_with_the_reason(tmp_path: Path, name: str, changed: dict[str, str], why: str) -> None:
    refuses = Cryptsetup(machine(name, tmp_path, changed))
    before = files(tmp_path)
    with pytest.raises(AdviseError, match=why):
        applying.apply(refuses.system, NAME if name != LUKS1 else "data", refuses.person())
    assert (refuses.calls, files(tmp_path)) == ([], before)


def test_a_name_that_is_not_open(luks2: Cryptsetup, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(apply="x", yes=True, system=luks2.system) == 2
    assert f"open are: {NAME}" in capsys.readouterr().err
    assert command.run(undo="x", yes=True, system=luks2.system) == 2
    assert f"open are: {NAME}" in capsys.readouterr().err
    assert command.run(undo=NAME, yes=True, system=luks2.system) == 2
    assert "nothing is kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words", "after"),
    [
        ("a b", {"no_read_workqueue"}, "a b none no-read-workqueue"),
        ("a b key", {"no_read_workqueue"}, "a b key no-read-workqueue"),
        (
            " a\tb  key\t luks,discard  # x ",
            {"allow_discards", "no_write_workqueue"},
            " a\tb  key\t luks,discard,no-write-workqueue  # x ",
        ),
        ("a b key none", {"no_read_workqueue"}, "a b key no-read-workqueue"),
        ("a b key no-read-workqueue,luks\r", {}, "a b key luks\r"),
        ("a b key no-read-workqueue", {}, "a b key none"),
        ("a b", {}, "a b"),
        ("a\x0c b key allow-discards", {"allow_discards"}, "a\x0c b key allow-discards"),
        ("a b key allow-discards,luks", {}, "a b key luks"),
        ("a b\u00a0c key luks", {"no_read_workqueue"}, "a b\u00a0c key luks,no-read-workqueue"),
        ("a b\u2003", {"no_read_workqueue"}, "a b\u2003 none no-read-workqueue"),
    ],
)
def test_a_line_of_crypttab(line: str, words: set[str], after: str) -> None:
    assert with_words(f"# one\n{line}\nc d\n", 1, frozenset(words)) == f"# one\n{after}\nc d\n"
