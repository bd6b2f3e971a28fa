"""From what is to 'what shall be': the calls of cryptsetup and the line of crypttab that get there, and back."""

from __future__ import annotations

from dataclasses import dataclass

from .looking import Found
from .mappings import FLAGS, OPTIONS, as_options
from .stored import FIELD, TAB_WORDS, known

REFRESHED = ("LUKS1", "LUKS2")  # the others would need all that they were opened with, or have another key each time
Words = frozenset[str]


@dataclass(frozen=True)
class State:
    """Words of the table: in force, in the LUKS2 header (None: there is none), in the options of crypttab's line."""

    table: Words
    header: Words | None
    tab: Words | None


def now(found: Found) -> State:
    """The mapping as it is."""
    line = found.stored.line
    return State(found.mapping.in_force or frozenset(), found.stored.header, line.words if line else None)


def wanted(found: Found, flags: Words, without: Words) -> State:
    """The mapping with `flags` and without `without`, in force and stored; all other words stay where they are.

    Those of the header come into force with any refresh.
    """
    old = now(found)
    header = None if old.header is None else (old.header | flags) - without
    tab = None if old.tab is None else (old.tab | (flags if header is None else frozenset())) - without
    return State((old.table | (old.header or frozenset()) | flags) - without, header, tab)


def taken_back(seen: State, before: State, after: State, *, whole: bool) -> State:
    """What is seen without the difference between `before` and `after`; what else was changed since stays.

    Where that change was not carried out to its end (not `whole`), it may have lost words that were in force.
    """
    table = (seen.table - (after.table - before.table)) | (before.table - (after.table if whole else frozenset()))
    header = _back(seen.header, before.header, after.header)
    if (table, header) != (seen.table, seen.header):
        table |= header or frozenset()
    return State(table, header, _back(seen.tab, before.tab, after.tab))


def _back(seen: Words | None, before: Words | None, after: Words | None) -> Words | None:
    if seen is None or before is None or after is None:
        return seen
    return (seen - (after - before)) | (before - after)


def refreshes(found: Found, old: State, new: State) -> list[list[str]]:
    """The calls of cryptsetup that lead from one state to the other. They ask for the passphrase by themselves.

    A refresh resets what it is not told, but for the header's words, which it adds; with --persistent it stores
    what it is told, and nothing else. Mappings that cannot be refreshed need none: they change when opened again.
    """
    name, kind = found.mapping.name, found.mapping.kind
    if not can_refresh(found) or (old.table, old.header) == (new.table, new.header):
        return []
    begin = ["cryptsetup", "refresh", name]
    if kind == "LUKS2" and not found.mapping.segments[0].keyring:
        begin.append("--disable-keyring")  # the key stays where it is
    if kind == "LUKS1" or new.header is None:
        return [[*begin, *as_options(new.table)]]
    calls, table = [], old.table
    if new.header != old.header:
        calls.append([*begin, "--persistent", *as_options(new.header)])
        table = new.header
    if new.table | new.header != table:
        calls.append([*begin, *as_options(new.table | new.header)])
    return calls


def can_refresh(found: Found) -> bool:
    """Whether what is open can be changed: of LUKS, where the table was seen."""
    return found.mapping.kind in REFRESHED and bool(found.mapping.segments)


def with_words(crypttab: str, number: int, words: Words) -> str:
    """The text of a crypttab whose line `number` has just these words of the table among its options.

    All else stays as it is, byte for byte.
    """
    lines = crypttab.split("\n")
    body = lines[number].rstrip("\r")
    end = lines[number][len(body) :]
    fields = list(FIELD.finditer(body))
    has = [option for option in fields[3][0].split(",") if option not in ("", "none", "-")] if len(fields) > 3 else []
    kept = [option for option in has if option not in TAB_WORDS or TAB_WORDS[option] in words]
    kept += tab_options(words - known(has))
    if len(fields) > 3:
        body = body[: fields[3].start()] + (",".join(kept) or "none") + body[fields[3].end() :]
    elif kept:
        body = body.rstrip(" \t\v\f\r") + (" none" if len(fields) < 3 else "") + " " + ",".join(kept)
    lines[number] = body + end
    return "\n".join(lines)


def line_back(crypttab: str, number: int, words: Words, before: str, after: Words) -> str:
    """The same for taking back: a line that still is what `with_words` made of `before` is as before again."""
    lines = crypttab.split("\n")
    if lines[number] != with_words(before, 0, after):
        return with_words(crypttab, number, words)
    lines[number] = before
    return "\n".join(lines)


def by_hand(found: Found, old: State, new: State, flags: Words) -> list[str]:
    """What is left to do for the next boot to have `flags` as the new state has them in force.

    The kernel's command line comes before the initramfs, and that before crypttab.
    """
    stored, shall, header = found.stored, new.table & flags, new.header or frozenset()
    line, lines = stored.command_line, []
    if line is not None:
        for words, verb, where in ((line & flags - shall, "remove", "from"), (shall - header - line, "add", "to")):
            text = f"{verb} {','.join(tab_options(words))} {where} its options on the kernel's command line"
            lines += [text] if words else []
    older = stored.in_image is not None and (stored.in_image | header) & flags != shall
    if (older or new.tab != old.tab) and (again := rebuild(found)):
        lines.append(again)
    return lines


def rebuild(found: Found) -> str:
    """What makes the initramfs again which opens the mapping; "" where none that was seen does."""
    image = found.stored.image
    if not image:
        return ""
    if image.endswith(".efi"):
        return f"make {image} again, as it was made: mkinitcpio -P, dracut --force --uefi, or kernel-install add"
    if "initramfs-linux" in image:
        return "mkinitcpio -P"
    if found.stored.by_initramfs_tools:
        return "update-initramfs -u"
    return f"dracut --force {image}" if "initrd.img-" in image else "dracut --force"  # Debian's name for it


def tab_options(words: Words) -> list[str]:
    """Words of the table as options in crypttab, in their order."""
    return [OPTIONS[word][2] for word in OPTIONS if word in words and OPTIONS[word][2]]


def said(words: Words) -> str:
    """Words of the table for a person, in their order."""
    return " ".join(word for word in OPTIONS if word in words) or "no flags"


def both(flags: Words) -> str:
    """Flags in short: "both flags", or the name of the one."""
    return "both flags" if flags == frozenset(FLAGS) else said(flags)
