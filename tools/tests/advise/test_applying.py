"""advise --apply and --undo: what is called, changed, kept, refused and taken back."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from machines import machine

from dmcrypt_inline.advise import applying, command
from dmcrypt_inline.advise.applying import Person
from dmcrypt_inline.advise.mappings import OPTIONS
from dmcrypt_inline.advise.planning import with_words
from dmcrypt_inline.advise.system import System
from dmcrypt_inline.common.errors import UserError

TABLE = "dmsetup table --target crypt"
LUKS1 = "ubuntu-22.04-raid"
UUID = "11111111-2222-3333-4444-555555555555"
NAME = "nvme0n1p3_crypt"
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
    before, said = files(tmp_path), dict(luks2.said)
    applying.apply(luks2.system, NAME, luks2.person(key_file="/etc/keys/data"))
    key = ["--key-file", "/etc/keys/data"]
    assert luks2.calls == [
        ["cryptsetup", "refresh", NAME, "--persistent", READ, WRITE, *key],
        ["cryptsetup", "refresh", NAME, "--allow-discards", READ, WRITE, *key],
    ]
    kept = tmp_path / "var/lib/dmcrypt-inline"
    assert [stat.S_IMODE(place.stat().st_mode) for place in (kept, kept / NAME)] == [0o700, 0o700]
    with pytest.raises(UserError, match="nothing was changed"):
        applying.apply(luks2.system, NAME, luks2.person())
    applying.undo(luks2.system, NAME, luks2.person())
    assert files(tmp_path) == before
    assert luks2.said[TABLE].split() == said[TABLE].split()
    assert luks2.said[DUMP].split() == ["UUID:", UUID, "Flags:"]


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


def test_a_crypttab_that_was_edited_since_is_left_alone(tmp_path: Path) -> None:
    luks1 = Cryptsetup(machine(LUKS1, tmp_path))
    applying.apply(luks1.system, "data", luks1.person())
    with (tmp_path / "etc/crypttab").open("a") as crypttab:
        crypttab.write("# mine\n")
    with pytest.raises(UserError, match="was edited since"):
        applying.undo(luks1.system, "data", luks1.person())
    assert len(luks1.calls) == 1


@pytest.mark.parametrize("answer", ["", "y", "YES"])
def test_nothing_is_done_without_the_word(luks2: Cryptsetup, tmp_path: Path, answer: str) -> None:
    before = files(tmp_path)
    with pytest.raises(UserError, match="not confirmed"):
        applying.apply(luks2.system, NAME, luks2.person(answer))
    assert (luks2.calls, files(tmp_path)) == ([], before)


@pytest.mark.parametrize(("fails_at", "left"), [(1, False), (2, True)])
def test_a_refresh_that_fails_leaves_nothing_or_the_way_back(tmp_path: Path, fails_at: int, left: bool) -> None:
    fails = Cryptsetup(machine("debian-12-laptop", tmp_path), fails_at)
    with pytest.raises(UserError, match="--undo" if left else "exit status 2$"):
        applying.apply(fails.system, NAME, fails.person())
    assert (tmp_path / "var/lib/dmcrypt-inline" / NAME).exists() == left


def test_what_came_out_is_looked_at(luks2: Cryptsetup) -> None:
    deaf = replace(luks2.person(), call=lambda _: 0)
    with pytest.raises(UserError, match=r"wanted in force .*; found in force allow_discards"):
        applying.apply(luks2.system, NAME, deaf)


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("debian-12-laptop", {"aes-xts-plain64": "aes-cbc-eboiv"}, "crypto queue is full"),
        ("debian-12-laptop", {"v1.24.0": "v1.21.0"}, "does not know the flags"),
        (LUKS1, {"\ndata\t": "\nother\t", "CRYPT-LUKS1-99": "CRYPT-BITLK-99"}, "nothing here that could be changed"),
    ],
)
def test_it_refuses_with_the_reason(tmp_path: Path, name: str, changed: dict[str, str], why: str) -> None:
    refuses = Cryptsetup(machine(name, tmp_path, changed))
    before = files(tmp_path)
    with pytest.raises(UserError, match=why):
        applying.apply(refuses.system, NAME if name != LUKS1 else "data", refuses.person())
    assert (refuses.calls, files(tmp_path)) == ([], before)


def test_a_name_that_is_not_open(luks2: Cryptsetup, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(apply="x", yes=True, system=luks2.system) == 2
    assert f"open are: {NAME}" in capsys.readouterr().err
    assert command.run(undo="x", yes=True, system=luks2.system) == 2
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
    ],
)
def test_a_line_of_crypttab(line: str, words: set[str], after: str) -> None:
    assert with_words(f"# one\n{line}\nc d\n", 1, frozenset(words)) == f"# one\n{after}\nc d\n"
