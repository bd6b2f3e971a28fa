"""The names and numbers that others rely on, and where the queues' sources must have them.

Released kernels and released versions of cryptsetup have the same. A claim is what a
file must hold, as a regular expression, and in which words that is said.
"""

from __future__ import annotations

from collections.abc import Mapping

Claims = tuple[tuple[str, str], ...]

FLAGS: Claims = (
    (r'"no_read_workqueue"\)\)', "the optional argument no_read_workqueue is parsed"),
    (r'"no_write_workqueue"\)\)', "the optional argument no_write_workqueue is parsed"),
    (
        r'DMEMIT\(" submit_from_crypt_cpus"\);.*'
        r'DMEMIT\(" no_read_workqueue"\);.*DMEMIT\(" no_write_workqueue"\);.*DMEMIT\(" integrity:',
        "tables show the flags after submit_from_crypt_cpus, before integrity:",
    ),
)
NEW_FLAGS: Claims = (
    *FLAGS,
    (r"\.version\s*=\s*\{1, 22, 0\}", "the target's version is 1.22.0"),
    (r'\{0, 8, "Invalid number of feature args"\}', "a table has at most 8 optional arguments"),
)
CRYPTSETUP: Mapping[str, Claims] = {
    "lib/libcryptsetup.h": (
        (r"#define CRYPT_ACTIVATE_NO_READ_WORKQUEUE\s+\(1 << 24\)", "CRYPT_ACTIVATE_NO_READ_WORKQUEUE is bit 24"),
        (r"#define CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE\s+\(1 << 25\)", "CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE is bit 25"),
    ),
    "lib/luks2/luks2_json_metadata.c": (
        (r'CRYPT_ACTIVATE_NO_READ_WORKQUEUE,\s+"no-read-workqueue"', "LUKS2 headers say no-read-workqueue"),
        (r'CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE,\s+"no-write-workqueue"', "LUKS2 headers say no-write-workqueue"),
    ),
    "lib/libdevmapper.c": (
        (r'" no_read_workqueue"', "tables have no_read_workqueue"),
        (r'" no_write_workqueue"', "tables have no_write_workqueue"),
    ),
    "src/cryptsetup.c": (
        (r'"perf-no_read_workqueue"', "the option --perf-no_read_workqueue exists"),
        (r'"perf-no_write_workqueue"', "the option --perf-no_write_workqueue exists"),
    ),
}
