"""Machines as text: record everything that the program looked at, and read such a recording in place of a machine.

`==> /path <==` starts a file, `==> /path/ <==` is an empty directory, `==> $ command <==` starts the output of a
program, `==> cpio IMAGE MEMBER <==` a file in an initramfs, `==> not seen <==` the facts that could not be read.
"""

import os
import pwd
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath

from . import looking
from .crypttab import parse_crypttab
from .errors import AdviseError
from .looking import Facts
from .system import System

HEAD = re.compile(r"^==> (.*) <==\n", re.MULTILINE)
NOT_SEEN = "not seen"
INTRODUCTION = """\
A machine recorded by dmcrypt-advise. Replay it with: dmcrypt-advise --from FILE
The program read no key and no passphrase. It replaced UUIDs, serial numbers, and the names of the host and of its
users consistently. It left out mounts of other hosts, words of the kernel command line that it does not use, comments
of crypttab, and the key slots of LUKS headers. Read the file before you publish it: other names stay as they are.

"""
# The words of the kernel's command line that tell how a volume is opened.
WORDS = re.compile(
    r"(BOOT_IMAGE|ostree|root|ro|rw|quiet|init|initrd|crypt(device|opts|key|root|dm)|crypt_root|(rd\.)?luks(\.[\w.-]+)?)(=|$)",
    re.ASCII,
)
DUMP_LINES = re.compile(r"^(LUKS header|Version|UUID|Flags|Requirements|Data segm|Keyslots|Tokens|\s+\d+: )|\tsector")
UUID = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(-?)[0-9a-f]{4}(?:\1[0-9a-f]{4}){3}\1?[0-9a-f]{8}(?![0-9a-f])", re.IGNORECASE
)
# Serial numbers: names of disks, WWNs, volumes of LVM and of multipath, short UUIDs of file systems and partitions.
SERIAL = re.compile(
    r"(?<=by-id/)[^\s,:]+?(?=-part\d|[\s,:\"']|$)|(?<=\bwwn-)\w+|(?<=^LVM-)\w{30,}|(?<=^mpath-)\S+"
    r"|(?<=UUID=)[0-9A-F]{4,8}-[0-9A-F]{2,4}(?![-\w])|(?<=by-uuid/)[0-9A-F]{4}-[0-9A-F]{4}(?![-\w])",
    re.MULTILINE | re.IGNORECASE,
)
# What these sections have is on many machines: a name that occurs there stays, as "root" and "debian" do.
PUBLIC = re.compile(r"/proc/(?!cmdline|self|swaps)|/etc/os-release|/sys/|\$ (?!cryptsetup luksDump)")
WORD = re.compile("[a-z0-9]+")
COMMON = frozenset(
    WORD.findall("dev mapper disk uuid partuuid luks crypt cryptsetup cpio root user data home boot none")
)


def load(text: str, place: Path, *, is_root: bool = True) -> System:
    """Write the machine that a text describes below `place`. Raises AdviseError if the text is none."""
    recorded: dict[str, str] = {}
    images: dict[str, dict[str, str]] = {}
    unseen: list[str] = []
    parts = HEAD.split(text)[1:]
    if not parts:
        raise AdviseError("this file is not a recorded machine")
    for head, content in zip(parts[::2], parts[1::2], strict=True):
        if head.startswith("$ "):
            recorded[head.removeprefix("$ ")] = content
        elif head.startswith("cpio ") and head.count(" ") > 1:
            _, image, member = head.split(" ", 2)
            images.setdefault(image, {})[member] = content
        elif head == NOT_SEEN:
            unseen += content.splitlines()
        elif head.endswith("/"):
            _inside(place, head).mkdir(parents=True, exist_ok=True)
        else:
            _write(place, head, content.encode())
    for image, members in images.items():
        _write(place, image, archive(members))
    return System(place, recorded, is_root, unseen)


def _inside(place: Path, name: str) -> Path:
    """The path of a recorded file. Raises AdviseError if it is outside of `place`."""
    if not name.startswith("/") or ".." in PurePosixPath(name).parts:
        raise AdviseError(f"the recording has a file with the name {name}")
    return place / name.lstrip("/")


def _write(place: Path, name: str, content: bytes) -> None:
    path = _inside(place, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise AdviseError(f"the recording has a file that cannot exist: {name}: {error.strerror}") from error


def archive(members: Mapping[str, str]) -> bytes:
    """A cpio archive, as an initramfs has it."""
    made = b""
    for name, text in {**members, "TRAILER!!!": ""}.items():
        body = text.encode()
        numbers = (1, 0o100644, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name.encode()) + 1, 0)
        made += b"070701" + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0"
        made += b"\0" * (-len(made) % 4) + body
        made += b"\0" * (-len(made) % 4)
    return made


def replay(text: str) -> Facts:
    """The facts of the machine that a text describes. Raises AdviseError if the text is none."""
    with tempfile.TemporaryDirectory() as place:
        return looking.look(load(text, Path(place)))


def recording(system: System, people: Collection[str]) -> str:
    """Everything that `system` has read, as text. `people`: the names of hosts and users, which are replaced."""
    sections = {
        head: next((reduce(text) for start, reduce in REDUCTIONS.items() if re.search(start, head)), text)
        for head, text in sorted(system.seen.items())
    }
    files = [head.split(" ")[1] if head.startswith("cpio ") else head for head in sections]
    for head in [head for head in sections if head.endswith("/")]:
        if any(file != head and f"{file}/".startswith(head) for file in files):
            del sections[head]  # its contents are recorded
    if system.unseen:
        sections[NOT_SEEN] = "\n".join(system.unseen)
    texts = [f"==> {head} <==\n{text}" + "\n" * (text[-1:] not in ("", "\n")) for head, text in sections.items()]
    shown = [f"{head} {text if head.startswith(('/proc', '/etc')) else ''}" for head, text in sections.items()]
    public = COMMON.union(*(WORD.findall(each.lower()) for each in shown if PUBLIC.match(each)))
    return INTRODUCTION + _replaced("".join(texts), {name for name in people if name.lower() not in public})


def _crypttab(text: str) -> str:
    """The lines without comments, and without keys that are no file: the argument of a keyscript may be a secret."""
    lines = parse_crypttab(text)
    keys = [it.key if it.key.startswith("/") or it.key in ("none", "-") else "key" for it in lines]
    return "\n".join(f"{it.name} {it.source} {key} {','.join(it.options)}" for it, key in zip(lines, keys, strict=True))


def _mounts(text: str) -> str:
    lines = (line.split() for line in text.splitlines())
    kept = (fields for fields in lines if fields[0].startswith("/dev/") or fields[2:3] == ["zfs"])
    return "\n".join(" ".join([*fields[:3], "rw 0 0"]) for fields in kept)


def _table(text: str) -> str:
    text = re.sub(r"(?<= )[0-9a-f]{32,}(?= )", lambda key: "0" * len(key[0]), text)  # dmsetup prints zeros by itself
    return re.sub(r"( :\d+:\w+:)(?!cryptsetup:)\S+", r"\1key", text)


# What a recording keeps of a file or an output, by its head.
REDUCTIONS: dict[str, Callable[[str], str]] = {
    r"/proc/cmdline$": lambda text: " ".join(filter(WORDS.match, text.split())),
    r"/loader/entries/": lambda text: "\n".join(re.findall(r"^(?:version|linux|initrd)[ \t].*", text, re.MULTILINE)),
    r"/crypttab(\.initramfs)?$": _crypttab,
    r"^/proc/self/mounts$": _mounts,
    r"^/proc/version$": lambda text: re.sub(r"\([^()\s]+@[^()\s]+\)", "(builder@example)", text, count=1),
    r"^\$ cryptsetup luksDump": lambda text: "\n".join(filter(DUMP_LINES.search, text.splitlines())),
    r"^\$ dmsetup table": _table,
}


def _replaced(text: str, people: Collection[str]) -> str:
    """The text with other UUIDs, serial numbers and names; equal ones stay equal."""
    text = _renamed(UUID, text, _other_uuid)
    text = _renamed(SERIAL, text, lambda number, _: f"serial{number}")
    names = [name for name in people if len(name) > 2]
    if not names:
        return text
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return _renamed(
        re.compile(rf"(?<![a-z0-9])({pattern})(?![a-z])", re.IGNORECASE), text, lambda number, _: f"name{number}"
    )


def _other_uuid(number: int, uuid: str) -> str:
    made = f"{number:08x}-0000-4000-8000-{number:012x}"
    return made if "-" in uuid else made.replace("-", "")


def _renamed(pattern: re.Pattern[str], text: str, name: Callable[[int, str], str]) -> str:
    numbers: dict[str, int] = {}

    def other(found: re.Match[str]) -> str:
        key = found[0].replace("-", "").lower()
        return name(numbers.setdefault(key, len(numbers) + 1), found[0])

    return pattern.sub(other, text)


def people() -> set[str]:
    """The names of this host and of its users: those of the accounts, and the words of their full names."""
    host = os.uname().nodename
    users = [user for user in pwd.getpwall() if 1000 <= user.pw_uid < 60000]
    full = (word for user in users for word in re.findall(r"\w+", user.pw_gecos))
    return {host, host.partition(".")[0], *(user.pw_name for user in users), *full}
