"""Print facts and verdicts: 80 columns wide for people, as JSON for scripts."""

import json
import re
import textwrap
from collections.abc import Sequence

from . import judge, planning
from .judge import Verdict
from .looking import Facts, MappingFacts

WIDTH = 80
# Commands that need root.
ROOT = ("cryptsetup refresh ", "cryptsetup reencrypt ", *(f"{command} " for command in ("update-initramfs", "dracut")))
ROOT += ("mkinitcpio -P", "sdbootutil ", "kernel-install ", "rpm-ostree ")
PROGRAM = "sudo dmcrypt-advise"
OF_VERDICT = ("name", "advice", "flags", "refused", "doubted", "conflicts", "sectors", "do", "status")
UNBROKEN = "\u00a0"  # a space in a command, where no line ends


def text(facts: Facts, verdicts: Sequence[Verdict], program: str = PROGRAM) -> str:
    """The text for the terminal. `program`: the command that starts this program as root."""
    version = ".".join(map(str, facts.kernel.version))
    source = "" if facts.kernel.release.startswith(version) else f", based on {version}"
    lines = [f"Linux {facts.kernel.release}{source}" + ", built by a distribution" * facts.kernel.distribution]
    if facts.kernel.module:
        lines.append(f"dm-crypt: the patched module of this project, version {facts.kernel.module}")
    if not facts.mappings:
        known = judge.kernel_defects(facts)
        lines.append("No dm-crypt mapping is open." + " Known defects of this kernel, and their fixes:" * bool(known))
        lines += [line for each in known for line in _wrapped("  - ", each, "    ")]
    printed: dict[str, str] = {}
    for found, verdict in zip(facts.mappings, verdicts, strict=True):
        lines += ["", *_mapping(found, verdict, program, printed)]
    if any("its changelog" in text for verdict in verdicts for text in (*verdict.reasons, *verdict.notes)):
        lines += ["", "the changelog of the kernel, on Fedora and RHEL, and on Debian and Ubuntu:"]
        lines += ["  rpm -q --changelog kernel-core", "  apt changelog linux-image-$(uname -r)"]
    if facts.unseen:
        lines += ["", "not checked:", *(wrapped for what in facts.unseen for wrapped in _wrapped("  ", what))]
    return "\n".join(lines) + "\n"


def _mapping(found: MappingFacts, verdict: Verdict, program: str, printed: dict[str, str]) -> list[str]:
    """The lines for a mapping. `printed`: the reasons above, with the mapping; they are not printed again."""
    calls = [line for line in verdict.do if line.startswith("cryptsetup ")]
    blocks: dict[str, Sequence[str]] = {"volume": [_volume(found)], "disk": [disk.description for disk in found.disks]}
    if found.mapping.active is not None:
        blocks |= {"active": [planning.option_list(found.mapping.active)], "stored": [_stored(found)]}
    said = {"reason": [it for it in verdict.reasons if it not in verdict.headline], "note": verdict.notes}
    for label, part in said.items():
        above = dict.fromkeys(printed[each] for each in part if each in printed)
        fresh = [each for each in part if each not in printed]
        blocks[label] = [*fresh, *([f"as above, for {', '.join(above)}"] if above else [])]
    printed.update({each: verdict.name for part in said.values() for each in part if each not in printed})
    blocks |= {"conflict": verdict.conflicts, "sectors": verdict.sectors}
    if calls:
        blocks["do"] = [f"dmcrypt-advise --apply {verdict.name}", "it runs:", *calls]
    blocks["by hand"] = [line for line in verdict.do if line not in calls]
    if calls and verdict.advice == judge.SET:
        blocks["undo"] = [f"dmcrypt-advise --undo {verdict.name}", "it removes both flags"]
    lines = _wrapped("", f"{verdict.name}: {verdict.headline}", "  ")
    for label, texts in blocks.items():
        listed = len(texts) > 1 and label in ("reason", "note", "conflict", "sectors")
        for number, each in enumerate(texts):
            start = f"  {'' if number else label:10}" + "- " * listed
            lines += _wrapped(start, complete(each, program), " " * len(start))
    return lines


def complete(line: str, program: str) -> str:
    """A text with the commands in it as the user has to type them."""
    line = re.sub(
        r"\bdmcrypt-advise (--\w+ \S+)", lambda it: f"{program} {it[1]}".replace(" ", UNBROKEN), line, flags=re.ASCII
    )
    lines = [(len(each) - len(each.lstrip()), each) for each in line.split("\n")]
    return "\n".join(f"{each[:at]}sudo {each[at:]}" if each[at:].startswith(ROOT) else each for at, each in lines)


def _volume(found: MappingFacts) -> str:
    mapping = found.mapping
    words = [mapping.kind or "dm-crypt"]
    for first in mapping.segments[:1]:
        words.append(f"{first.cipher} {first.key_bits} bits, sectors of {first.sector_size}")
    if found.driver:
        words.append(f"{found.driver.name} ({found.driver.kind})")
    if found.used_for:
        words.append(f"for {found.used_for}")
    return ", ".join(words)


def _stored(found: MappingFacts) -> str:
    stored = found.stored
    places = {
        "header": stored.header,
        stored.file: stored.crypttab,
        "initramfs": stored.in_image,
        "kernel command line": stored.command_line,
    }
    texts = [f"{place}: {planning.option_list(options)}" for place, options in places.items() if options is not None]
    return "; ".join(texts) or "not found"


def _wrapped(first: str, what: str, later: str = "") -> list[str]:
    """Wrap a text, except for commands, and except for what follows its first line: people paste them."""
    later = later or " " * max(len(first), 2)
    head, *verbatim = what.split("\n")
    width = WIDTH if not head.startswith("sudo ") else len(first + head)
    lines = textwrap.wrap(
        head, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(UNBROKEN, " ") for line in [*lines, *(later + line for line in verbatim)]]


def as_json(facts: Facts, verdicts: Sequence[Verdict]) -> str:
    """The same facts and verdicts as JSON."""
    mappings = [
        {
            **{name: getattr(verdict, name) for name in OF_VERDICT},
            "type": found.mapping.kind,
            "in_force": found.mapping.active,
            "next_boot": found.stored.next_boot,
            "header": found.stored.header,
            "crypttab": found.stored.crypttab,
            "initramfs": found.stored.in_image,
            "kernel_command_line": found.stored.command_line,
            "opener": found.stored.opening.opener.name,
            "ciphers": [segment.cipher for segment in found.mapping.segments],
            "driver": found.driver.name if found.driver else None,
            "disks": [disk.name for disk in found.disks],
            "reasons": verdict.reasons + verdict.notes,
        }
        for found, verdict in zip(facts.mappings, verdicts, strict=True)
    ]
    kernel = {name: getattr(facts.kernel, name) for name in ("release", "exact", "distribution")}
    version = ".".join(map(str, facts.kernel.version))
    document = {"kernel": {**kernel, "version": version}, "mappings": mappings, "not_seen": facts.unseen}
    return json.dumps(document, indent=2, default=sorted) + "\n"  # sets of options are sorted
