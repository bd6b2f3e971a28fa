"""The rules for the text of patches and cover letters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_string
from email.header import decode_header, make_header
from email.utils import parseaddr

SUBJECT_LIMIT = 70  # characters of the summary, the bracketed part not counted
SIGNED_OFF = re.compile(r"^Signed-off-by:", re.M | re.I)
BELOW = re.compile(r"^---\s*$", re.M)  # git am leaves out what follows
TRAILER = re.compile(r"^(Fixes|Cc|Link|Closes|[A-Z][a-z]+(-[a-z]+)*-by): .*$", re.M)
UNFINISHED = re.compile(r"\b(WIP|TODO|FIXME|TBD|XXX)\b|^(fixup|squash|amend)!|\*\*\* [A-Z ]+ HERE \*\*\*", re.M)
HISTORY = re.compile(
    r"^\W*(change(s|log)?\b.*\b(since|in|from|to) v\d+\b(?!\.\d).*|(change-?log|history|v\d+)\W*:.*)$", re.M | re.I
)
STAND_IN = "NOT FOR MERGING: "  # what is in the tree by the time the queue is merged, or for measuring


@dataclass(frozen=True)
class Mail:
    """A patch or cover letter. Of the subject, `tag` is the bracketed part ('PATCH 1/2'), `summary` the rest."""

    author: str
    tag: str
    summary: str
    body: str


def parse_mail(text: str) -> Mail:
    """Read one format-patch mail, with or without the mbox line before the headers."""
    message = message_from_string(re.sub(r"\AFrom [^\n]*\n", "", text))
    name, address = parseaddr(_plain(message.get("From", "")))
    found = re.fullmatch(r"\[([^]]*)\]\s*(.*)", _plain(message.get("Subject", "")))
    tag, summary = (found[1], found[2]) if found else ("", _plain(message.get("Subject", "")))
    return Mail(f"{name} <{address}>", tag, summary, str(message.get_payload()))


def adds_selftests(mail: Mail) -> bool:
    """Return True if a patch belongs to the selftests: they are a series of their own, which comes after the queue."""
    return mail.summary.startswith("selftests: ")


def _plain(header: str) -> str:
    """A header's text, decoded and unfolded."""
    return " ".join(str(make_header(decode_header(header))).split())


def patch_problems(text: str, number: int, total: int, authors: Sequence[str], prefixes: tuple[str, ...]) -> list[str]:
    """The problems of patch `number` of `total`.

    It may come from one of `authors`, and its subject start with one of `prefixes` (none: not checked).
    """
    mail = parse_mail(text)
    problems = []
    if authors and mail.author not in authors:
        problems.append(f"From: is {mail.author}, expected {' or '.join(authors)}")
    if SIGNED_OFF.search(text):
        problems.append("it has a Signed-off-by; signing off is for the person who sends")
    if prefixes and not mail.summary.removeprefix(STAND_IN).startswith(prefixes):
        problems.append(f"the subject starts with none of {', '.join(p.strip() for p in prefixes)}: {mail.summary}")
    body = BELOW.split(mail.body)[0]
    if not TRAILER.sub("", body).strip():
        problems.append("it has no text that says why")
    problems += [f"history belongs below ---: {found[0].strip()}" for found in HISTORY.finditer(body)]
    problems += _wording(mail.summary, body)
    if not re.fullmatch(rf"(RFC )?PATCH( v\d+)?( 0*{number}/{total})?", mail.tag):
        problems.append(f"the subject's tag is [{mail.tag}], expected [PATCH] or [PATCH {number}/{total}]")
    return problems


def cover_problems(text: str, summaries: Sequence[str]) -> list[str]:
    """The problems of the cover letter of patches with these `summaries`."""
    mail = parse_mail(text)
    problems = [f"it does not list: {summary}" for summary in summaries if summary not in _unwrapped(mail.body)]
    if not re.fullmatch(rf"(RFC )?PATCH( v\d+)? 0+/{len(summaries)}", mail.tag):
        problems.append(f"the subject's tag is [{mail.tag}], expected [PATCH 0/{len(summaries)}]")
    if SIGNED_OFF.search(text):
        problems.append("it has a Signed-off-by")
    if "not tested" not in _unwrapped(mail.body).lower():
        problems.append("it does not say what was not tested")
    return problems + _wording(mail.summary, mail.body)


def _wording(summary: str, body: str) -> list[str]:
    """The problems with the words of a patch or cover letter."""
    problems = []
    if len(summary) > SUBJECT_LIMIT:
        problems.append(f"the subject has {len(summary)} characters, more than {SUBJECT_LIMIT}: {summary}")
    if summary.endswith("."):
        problems.append(f"the subject ends with a full stop: {summary}")
    problems += [f"it is not finished: {found[0]}" for found in UNFINISHED.finditer(f"{summary}\n{body}")]
    return problems


def _unwrapped(text: str) -> str:
    return " ".join(text.split())
