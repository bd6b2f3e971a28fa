"""dm-crypt mappings to measure: their tables, and the proof that they have what they claim."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from ...common.cleanup import undone
from ...common.errors import UserError
from ...common.run import CommandError, Completed, show
from .devices import Device, Run
from .measurements import MODES

NULL_CIPHER = "capi:ecb(cipher_null)"
CIPHER = "aes-xts-plain64"
# Of every mapping with a real cipher, in hex: it protects nothing, and may stand in logs and process arguments.
FAKE_KEY = "00112233445566778899aabbccddeeff" * 2 + "ffeeddccbbaa99887766554433221100" * 2
HEADERS = (16 << 20) >> 9  # in sectors: longer than superblocks and LUKS headers usually are
PASSPHRASE = b"not a secret"
PREFIX = f"dmcrypt-inline-{os.getpid()}-"  # of each mapping's name


@dataclass(frozen=True)
class Crypt:
    """What a mapping encrypts with: the table's cipher, key (hex or "-") and first sector on the device."""

    cipher: str
    key: str
    offset: int


def null(device: Device, *, read_only: bool) -> Crypt:
    """The null cipher. What a device that is only read starts with is left out, for udev not to take it for its own."""
    largest = 8  # encryption sector, in sectors of 512 bytes
    return Crypt(NULL_CIPHER, "-", min(HEADERS, device.sectors // 2) // largest * largest if read_only else 0)


def arguments(mode: str, sector_size: int) -> tuple[str, ...]:
    """The optional arguments of a table for a mode, sector size in bytes."""
    return (*MODES[mode], *((f"sector_size:{sector_size}",) if sector_size != 512 else ()))


def table(crypt: Crypt, device: Device, mode: str, sector_size: int) -> str:
    """The table of a mapping over the whole device, in whole encryption sectors."""
    per_sector = sector_size // 512
    sectors = (device.sectors - crypt.offset) // per_sector * per_sector
    optional = arguments(mode, sector_size)
    flags = "".join(f" {word}" for word in (len(optional), *optional)) if optional else ""
    return f"0 {sectors} crypt {crypt.cipher} {crypt.key} 0 {device.node} {crypt.offset}{flags}"


def check_flags(shown: str, mode: str, sector_size: int) -> None:
    """Raise UserError unless the table that the kernel shows has exactly the optional arguments of the mode."""
    words = shown.split()
    found = words[9:] if len(words) > 8 else []
    wanted = arguments(mode, sector_size)
    count = words[8] if len(words) > 8 else "0"
    if sorted(found) != sorted(wanted) or count != str(len(wanted)):
        raise UserError(f"the mapping is not in the mode {mode}: expected {wanted}, its table is: {shown}")


def without_key(shown: str) -> str:
    """A table as it may be written down: the key, which dmsetup shows as zeros, replaced by its length."""
    words = shown.split()
    if len(words) > 4 and len(words[4]) < 2:
        words[4] = "-"
    elif len(words) > 4:
        words[4] = f"[{len(words[4]) // 2}-byte-key]"
    return " ".join(words)


@contextmanager
def mapped(
    crypt: Crypt, device: Device, mode: str, sector_size: int, run: Run, *, read_only: bool
) -> Iterator[tuple[str, str]]:
    """A mapping in this mode: its node and its table without the key, checked.

    Raises CommandError when the kernel refuses it, UserError when it is not what was asked for.
    """
    name = PREFIX + mode
    options = ("--readonly",) if read_only else ()
    with _removed(name, ("dmsetup", "remove", "--retry", name), run):
        run(["dmsetup", "create", name, *options, "--table", table(crypt, device, mode, sector_size)])
        shown = run(["dmsetup", "table", name]).output.strip()
        check_flags(shown, mode, sector_size)
        yield f"/dev/mapper/{name}", without_key(shown)


def _removed(name: str, command: Sequence[str], run: Run) -> AbstractContextManager[None]:
    """Remove the mapping at the end with this command, if it was made."""
    return undone(f"the mapping {name}", partial(_remove, name, command, run), show(command))


def _remove(name: str, command: Sequence[str], run: Run) -> None:
    try:
        run(command)
    except CommandError:
        try:
            run(["dmsetup", "info", name])
        except CommandError:
            return  # there is none
        raise


def knows(mode: str, device: Device, run: Run, *, read_only: bool) -> bool:
    """Whether the dm-crypt that is loaded takes the arguments of the mode."""
    try:
        with mapped(null(device, read_only=read_only), device, mode, 512, run, read_only=read_only):
            return True
    except CommandError as error:
        if error.completed.argv[:2] != ("dmsetup", "create"):
            raise
        return False


def luks(device: Device, cryptsetup: str, run_with_input: Run) -> Crypt:
    """Format the device as LUKS2, with the fake key, and say how its volume is mapped.

    A volume's mapping is then made with dmsetup, in any mode, as cryptsetup would make it.
    Raises UserError when that is not with the cipher asked for.
    """
    name = PREFIX + "luks"
    options = ["--type", "luks2", "--batch-mode", "--key-file=-", "--sector-size", "512", "--key-size", "512"]
    options += ["--cipher", CIPHER, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
    with tempfile.NamedTemporaryFile(prefix=PREFIX) as key:
        key.write(bytes.fromhex(FAKE_KEY))
        key.flush()
        run_with_input([cryptsetup, "luksFormat", *options, "--master-key-file", key.name, device.node])
    with _removed(name, (cryptsetup, "close", name), run_with_input):
        run_with_input([cryptsetup, "open", "--key-file=-", device.node, name])
        return parse_crypt(run_with_input(["dmsetup", "table", name]))


def parse_crypt(shown: Completed) -> Crypt:
    """The volume with the fake key whose table dmsetup shows. Raises UserError when it is another kind of table."""
    words: Sequence[str] = shown.output.split()
    if len(words) < 8 or words[2:4] != ["crypt", CIPHER]:
        raise UserError(f"cryptsetup opened no mapping with {CIPHER}: {shown.output}")
    return Crypt(CIPHER, FAKE_KEY, int(words[7]))
