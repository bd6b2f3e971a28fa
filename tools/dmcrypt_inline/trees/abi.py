"""The names and numbers that others rely on, and where the queues' sources must have them.

Released kernels and released versions of cryptsetup have the same. A claim is what the code of a
file must hold, comments apart, as a regular expression, and in which words that is said. What a
program then prints is for the tests in guests: table_roundtrip, and those of cryptsetup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Claims = tuple[tuple[str, str], ...]
TOKEN = re.compile(r'(?P<kept>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|/\*.*?\*/|//[^\n]*', re.S)


def without_comments(source: str) -> str:
    """C source with a space in place of each comment; what looks like one in a string stays."""
    return TOKEN.sub(lambda found: found["kept"] or " ", source)


def broken_claims(source: str, claims: Claims) -> list[str]:
    """In their own words, those of the claims that C source does not keep."""
    code = without_comments(source)
    return [said for pattern, said in claims if not re.search(pattern, code, re.S)]


def _both(pattern: str, said: str) -> Claims:
    """A claim about no_read_workqueue, and the same about no_write_workqueue."""
    write = {word: word.replace("read", "write").replace("READ", "WRITE") for word in (pattern, said)}
    return ((pattern, said), (write[pattern], write[said]))


def _of_a_driver(version: str, limit: int) -> Claims:
    """What each kernel's dm-crypt.c has, and these two numbers."""
    return (
        *_both(
            r"while \(opt_params--\) \{.*"
            r'!strcasecmp\(opt_string, "no_read_workqueue"\)\)\s+set_bit\(DM_CRYPT_NO_READ_WORKQUEUE, &cc->flags\);',
            "the optional argument no_read_workqueue is parsed, in any place and case",
        ),
        *_both(
            r'test_bit\(DM_CRYPT_NO_READ_WORKQUEUE, &cc->flags\)\)\s+DMEMIT\(" no_read_workqueue"\);',
            "tables show no_read_workqueue where it is set",
        ),
        (
            r'DMEMIT\(" submit_from_crypt_cpus"\);.*'
            r'DMEMIT\(" no_read_workqueue"\);.*DMEMIT\(" no_write_workqueue"\);.*DMEMIT\(" integrity:',
            "tables show the flags after submit_from_crypt_cpus, before integrity:",
        ),
        (rf"\.version\s*=\s*\{{{version.replace('.', ', ')}\}}", f"the target's version is {version}"),
        (rf'\{{0, {limit}, "Invalid number of feature args"\}}', f"a table has at most {limit} optional arguments"),
    )


NEW_FLAGS = _of_a_driver("1.22.0", 8)  # of a queue that adds them
FLAGS: Claims = (  # of today's mainline, which has them
    *_of_a_driver("1.29.0", 10),
    *_both(
        r'DMEMIT\(",no_read_workqueue=%c", test_bit\(DM_CRYPT_NO_READ_WORKQUEUE, &cc->flags\)',
        "measurements (IMA) have no_read_workqueue",
    ),
)
CRYPTSETUP: Mapping[str, Claims] = {
    "lib/libcryptsetup.h": (
        (r"#define CRYPT_ACTIVATE_NO_READ_WORKQUEUE\s+\(1 << 24\)", "CRYPT_ACTIVATE_NO_READ_WORKQUEUE is bit 24"),
        (r"#define CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE\s+\(1 << 25\)", "CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE is bit 25"),
    ),
    "lib/luks2/luks2_json_metadata.c": _both(
        r'CRYPT_ACTIVATE_NO_READ_WORKQUEUE,\s+"no-read-workqueue"', "LUKS2 headers say no-read-workqueue"
    ),
    "lib/libdevmapper.c": (
        *_both(
            r'\(flags & CRYPT_ACTIVATE_NO_READ_WORKQUEUE\) \? " no_read_workqueue" : ""',
            "tables have no_read_workqueue",
        ),
        *_both(
            r'!strcasecmp\(arg, "no_read_workqueue"\)\)\s+\*act_flags \|= CRYPT_ACTIVATE_NO_READ_WORKQUEUE;',
            "no_read_workqueue of a table is understood",
        ),
    ),
    "src/cryptsetup.c": (
        *_both(
            r'\{ "perf-no_read_workqueue",\s*\'\\0\', POPT_ARG_NONE, &opt_perf_no_read_workqueue,',
            "the option --perf-no_read_workqueue exists",
        ),
        *_both(
            r"if \(opt_perf_no_read_workqueue\)\s+\*flags \|= CRYPT_ACTIVATE_NO_READ_WORKQUEUE;",
            "the option --perf-no_read_workqueue sets the flag",
        ),
        (
            r'!strcmp\(aname, "refresh"\)\) \{\s+aname = "open";\s+opt_refresh = 1;',
            "refresh is an open with a flag",
        ),
        (
            r"crypt_persistent_flags_set\(cd, CRYPT_FLAGS_ACTIVATION, \(cad\.flags \| stored\) & flags\)",
            "--persistent stores the flags in force, and leaves those that the kernel lacks",
        ),
        *_both(
            r'\(cad\.flags & CRYPT_ACTIVATE_NO_READ_WORKQUEUE\) \? " no_read_workqueue" : ""',
            "status says no_read_workqueue",
        ),
    ),
}
