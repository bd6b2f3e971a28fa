"""The version of the running kernel as upstream counts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .defects import Version, version_numbers
from .system import System

FLAGS_SINCE, FLAGS_SINCE_TARGET = (5, 9), (1, 22)  # the first versions of Linux and of its dm-crypt with the flags
# Release names of kernels whose number is only that of the source they started from: Red Hat, Amazon, openEuler,
# Anolis, Alibaba, Kylin, SUSE, Oracle.
FROZEN = re.compile(r"\.(el|amzn|oe|an|al|ky)\d|-1[56]\d{4}\.|\.uek\b|\.\d+-lp\d")
DISTRIBUTION = re.compile(r"[-.](fc\d+|arch\d|generic|amd64|default|pve|cachyos|zen)")
# Debian and its derivatives end /proc/version with name, package version and date; the version may have an epoch.
PACKAGE = re.compile(r"#\d+ .* [A-Za-z]+ (?:\d+:)?(\d+\.\d+\.\d+)-\S+ \(\d{4}-")


@dataclass(frozen=True)
class RunningKernel:
    """The running kernel: `release` as uname prints it, `version` as upstream counts.

    `exact`: the last number of `version` is known. `distribution`: a distribution built the kernel and may have added
    fixes without changing the number. `target`: the version of dm-crypt, () if unknown; fixes do not change it.
    """

    release: str
    version: Version
    exact: bool
    distribution: bool
    target: Version = ()

    @property
    def has_flags(self) -> bool:
        """True if dm-crypt knows both flags."""
        return self.target >= FLAGS_SINCE_TARGET if self.target else self.version >= FLAGS_SINCE


def running_kernel(system: System, *, dm_crypt: bool) -> RunningKernel:
    """Read the kernel's version, and if `dm_crypt` is in use its target version."""
    release = system.word("/proc/sys/kernel/osrelease")
    # Debian's and Ubuntu's release name has the number of the ABI in place of the version's last number.
    debian = PACKAGE.search(system.word("/proc/version"))
    ubuntu = re.fullmatch(r"Ubuntu \S+ (\d+\.\d+\.\d+)", system.word("/proc/version_signature"))
    source = debian or ubuntu
    version = version_numbers(source[1] if source else release)
    targets = system.ask(("dmsetup", "targets"), "version of dm-crypt") if dm_crypt else None
    found = re.search(r"^crypt +v(\S+)", targets or "", re.MULTILINE)
    target = version_numbers(found[1] if found else "")
    frozen = bool(FROZEN.search(release)) or (target >= FLAGS_SINCE_TARGET and version < FLAGS_SINCE)
    distribution = bool(source) or frozen or bool(DISTRIBUTION.search(release))
    return RunningKernel(release, version, bool(version) and not frozen, distribution, target)
