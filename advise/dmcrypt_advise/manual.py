"""The manual page, from what --help says: `python -m dmcrypt_advise.manual > dmcrypt-advise.8`."""

from __future__ import annotations

import sys

from . import command

NAME = command.PROGRAM
SEE_ALSO = ("cryptsetup-refresh(8)", "cryptsetup-reencrypt(8)", "crypttab(5)", "dmsetup(8)")


def page() -> str:
    """The page in the language of man(7)."""
    stage = command.parser()
    synopsis = " ".join(stage.format_usage().removeprefix("usage:").split())
    lines = [f'.TH {NAME.upper()} 8 "" "inline dm-crypt"', ".SH NAME", _text(f"{NAME} - {command.SUMMARY}")]
    lines += [".SH SYNOPSIS", _text(synopsis), ".SH DESCRIPTION", _text(command.DESCRIPTION), ".SH OPTIONS"]
    for action in stage._actions:
        words = [f"{option} {action.metavar or ''}".strip() for option in action.option_strings]
        lines += [".TP", rf"\fB{_text(', '.join(words))}\fR", _text((action.help or "").capitalize() + ".")]
    for part in command.EPILOG.strip().split("\n\n"):
        title, _, body = part.partition(":\n")
        lines += [f".SH {title.upper()}", ".nf", _text(body), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", _text(", ".join(SEE_ALSO)), ""])


def _text(words: str) -> str:
    """Words as roff takes them: hyphens are those of options, no line is a request."""
    escaped = words.strip("\n").replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines())


if __name__ == "__main__":
    sys.stdout.write(page())
