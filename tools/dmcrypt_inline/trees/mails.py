"""The rules for the text of patches and cover letters."""

import re
from dataclasses import dataclass
from email import message_from_string, policy
from email.utils import parseaddr

SUBJECT_LIMIT = 70  # characters of the summary, the bracketed part not counted
SIGNED_OFF = re.compile(r"^Signed-off-by:", re.M | re.I)
UNFINISHED = re.compile(r"\b(WIP|TODO|FIXME|TBD|XXX)\b|^(fixup|squash|amend)!|\*\*\* [A-Z ]+ HERE \*\*\*", re.M)


@dataclass(frozen=True)
class Mail:
    """A patch or cover letter. Of the subject, `tag` is the bracketed part ('PATCH 1/2'), `summary` the rest."""

    author: str
    tag: str
    summary: str
    body: str


def parse_mail(text: str) -> Mail:
    """Read one format-patch mail, with or without the mbox line before the headers."""
    message = message_from_string(re.sub(r"\AFrom [^\n]*\n", "", text), policy=policy.default)
    name, address = parseaddr(str(message.get("From", "")))
    subject = " ".join(str(message.get("Subject", "")).split())
    found = re.fullmatch(r"\[([^]]*)\]\s*(.*)", subject)
    tag, summary = (found[1], found[2]) if found else ("", subject)
    return Mail(f"{name} <{address}>", tag, summary, str(message.get_payload()))


def adds_selftests(mail: Mail) -> bool:
    """Return True if a patch belongs to the selftests: they are a series of their own, which comes after the queue."""
    return mail.summary.startswith("selftests: ")


def mail_problems(mail: Mail, body: str) -> list[str]:
    """The problems that a patch and a cover letter can have. `body` is the text that is posted."""
    problems = []
    if SIGNED_OFF.search(body):
        problems.append("it has a Signed-off-by; signing off is for the person who sends")
    if len(mail.summary) > SUBJECT_LIMIT:
        problems.append(f"the subject has {len(mail.summary)} characters, more than {SUBJECT_LIMIT}: {mail.summary}")
    if mail.summary.endswith("."):
        problems.append(f"the subject ends with a full stop: {mail.summary}")
    return problems + [f"it is not finished: {found[0]}" for found in UNFINISHED.finditer(f"{mail.summary}\n{body}")]
