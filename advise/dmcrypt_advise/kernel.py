"""The version of the running kernel as upstream counts."""

import re
from dataclasses import dataclass

from .defects import Version, version_numbers
from .system import System

FLAGS_SINCE, FLAGS_SINCE_TARGET = (5, 9), (1, 22)  # the first versions of Linux and of its dm-crypt with the flags
# Release names of kernels whose number is only that of the source they started from: Red Hat, Amazon, openEuler,
# Anolis, Alibaba, Kylin, EulerOS, OpenCloudOS, SUSE, Oracle; and any x.y.0 with a long name, such as 6.6.0-32.7.v2505.
# Real releases x.y.0 have one digit (6.17.0-1-default), Fedora's suffix, or Ubuntu's number of a mainline build.
FROZEN = re.compile(r"\.(el|amzn|oe|an|al|ky|oc|tl|euleros)\d|-1[56]\d{4}\.|\.uek\b|\.\d+-lp\d")
FROZEN_ZERO = re.compile(r"\d+\.\d+\.0-(?!0\d{5}-)([1-9]\d|\d+\.\d)(?!.*\.fc\d)")
DISTRIBUTION = re.compile(
    r"_\d+$|[-.+_](fc\d|arch|generic|amd64|default|pve|cachyos|zen|rpt|rpi|v\d+l?\+|kali|MANJARO|lts|gentoo|talos"
    r"|microsoft|(current|edge|legacy|vendor|rockchip)-|truenas|unraid|asahi|t2-)",
    re.I,
)
# Debian and its derivatives end /proc/version with name and version of the package; the version may have an epoch.
PACKAGE = re.compile(r"#\d+ (?:.* )?[A-Za-z]\w* (?:\d+:)?(\d+\.\d+\.\d+)-\S+")
MODULE = "/sys/module/dm_crypt/version"  # only this project's dm-crypt has a version
OUR_MODULE = "-inline"


@dataclass(frozen=True)
class RunningKernel:
    """The running kernel: `release` as uname prints it, `version` as upstream counts.

    `exact`: the last number of `version` is known. `distribution`: a distribution built the kernel and may have added
    fixes without changing the number. `target`: the version of dm-crypt, () if unknown; fixes do not change it.
    `module`: the version of this project's dm-crypt, "" if another one is loaded.
    """

    release: str
    version: Version
    exact: bool
    distribution: bool
    target: Version = ()
    module: str = ""

    @property
    def has_flags(self) -> bool:
        """True if dm-crypt knows both flags."""
        return self.target >= FLAGS_SINCE_TARGET if self.target else self.version >= FLAGS_SINCE


def running_kernel(system: System, *, dm_crypt: bool) -> RunningKernel:
    """Read the kernel's version, and if `dm_crypt` is in use its target version."""
    release = system.word("/proc/sys/kernel/osrelease")
    # Debian's and Ubuntu's release name has the number of the ABI in place of the version's last number.
    source = PACKAGE.search(system.word("/proc/version")) or re.fullmatch(
        r"Ubuntu \S+ (\d+\.\d+\.\d+)", system.word("/proc/version_signature")
    )
    version = version_numbers(source[1] if source else release)
    targets = system.ask(("dmsetup", "targets"), "version of dm-crypt") if dm_crypt else None
    found = re.search(r"^crypt +v(\S+)", targets or "", re.MULTILINE)
    target = version_numbers(found[1] if found else "")
    frozen = bool(FROZEN.search(release)) or (target >= FLAGS_SINCE_TARGET and version < FLAGS_SINCE)
    frozen = frozen or (not source and bool(FROZEN_ZERO.match(release)))
    distribution = bool(source) or frozen or bool(DISTRIBUTION.search(release))
    module = system.word(MODULE)
    patched = module.removesuffix(OUR_MODULE) if module.endswith(OUR_MODULE) else ""
    return RunningKernel(release, version, bool(version) and not frozen, distribution, target, patched)
