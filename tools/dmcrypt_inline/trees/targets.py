"""The targets: one row for each tree and version that a queue applies to.

A new backport is a row here and a directory queues/<name> with series, cover-letter.txt and patches/. A target that
is not a kernel takes a row, a directory, and a short description of its build (see Build). Further files of a
target lie in tools/targets/<name>: `base.patch` takes the files of the Debian package to the ones that the
queue applies to, `native.patch` is for User-Mode Linux, `measured/*.patch` for kernels that measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.paths import REPO, TOOLS

CONFIG = TOOLS / "config"
DATA = TOOLS / "targets"
NATIVE, NATIVE_DEBUG = "native", "native_debug"  # User-Mode Linux
MEASURED = "measured"  # User-Mode Linux for measurements with real ciphers
DISTRIBUTION = "distribution"  # the same with options that distributions set
NATIVE_PATCH, MEASURED_PATCHES = "native.patch", "measured/*.patch"  # for the sources of these kernels
RT, KCSAN = "rt", "kcsan"  # PREEMPT_RT, and the detector of data races
XFSTESTS = "xfstests"  # User-Mode Linux with file systems and few debug options
PROCESSORS = ARM64, S390X = "arm64", "s390x"  # other processors, which QEMU emulates
# Kernels that are only configured, to compile dm-crypt for them: the fast one with one change, or another processor.
COMPILE_ONLY = ("clang", "preempt", "preempt_none", "one_cpu", "no_keys")
CROSS_COMPILE_ONLY = ("i386", "arm", "s390")
DEFAULT = "linux-5.8"  # where a stage needs one target and the user names none
CRYPTSETUP = "cryptsetup-2.3"  # the target whose programs the guests use
DRIVER = "drivers/md/dm-crypt.c"


@dataclass(frozen=True)
class Package:
    """The Debian package with the files of the embedded base.

    `version` is empty where any version of the suite will do, or "2.8.*" where the newest one must begin so. A kernel
    comes from a binary package with a tarball, anything else from a source package. A suite that ends in -security is
    in the security archive.
    """

    name: str
    suite: str
    version: str = ""


@dataclass(frozen=True)
class Build:
    """The build of a target that is no kernel: commands that run in its sources, with {prefix}, {cflags} and {jobs}.

    `packages` is the group of host packages. `program` prints the version with --version; its path begins with
    "source" or "installed".
    """

    packages: str
    configure: tuple[tuple[str, ...], ...]
    make: tuple[tuple[str, ...], ...]
    program: str
    install: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Target:
    """One upstream tree at one version, and the queue that applies to it.

    `blobs` maps paths to the abbreviated git blob ids that a tree of this version has; `package_blobs` the same for
    the embedded base, where that differs. `commit` is the commit of the tag (40 hex digits, "": not known). `below`
    names the target whose tree, with its queue applied, is the base of a stacked queue. A `long_term` kernel takes
    fixes only; where the user does not name it, its mails are checked and its NATIVE kernel is tested. `in_package`:
    its driver is in the package. `directory` holds the queue.

    `variable` is that of make for the user's own tree. `lists` are the addresses for trees without get_maintainer.pl.
    `tracked` are directories of a release whose files are not generated, even those that .gitignore names.

    Of programs only: `build`, or for scripts, which nothing builds, `own_test`: a command that runs in the tree and
    writes below $TESTDIR; `guests` are the targets whose kernels the tests run on, `tests` the names or groups of
    tests, `cryptsetup` the target whose cryptsetup they use, if another. Of kernels only: `fragments` maps each flavour
    to its config fragments, later ones win. `other_sources` are files of further modules, outside the driver's
    directory; variants replace them, too. `has_flags`: the base knows the flags, and the queue has fixes. `defects` are
    the kselftests that fail on the base, `native_defects` in the NATIVE flavour. `exceptions` are kselftests that may
    skip, and cases "test:case" that fail, on base and queue; `native_exceptions` may skip in the NATIVE flavour, too.
    `later` are cases (test, case) of a mode that one commit adds and a later one completes.
    """

    name: str
    upstream: str
    tag: str
    package: Package
    blobs: Mapping[str, str]
    variable: str = "LINUX"
    lists: tuple[str, ...] = ()
    tracked: tuple[str, ...] = (".",)
    package_blobs: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    below: str = ""
    long_term: bool = False
    in_package: bool = False
    directory: Path | None = None
    build: Build | None = None
    own_test: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    cryptsetup: str = ""
    fragments: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    other_sources: tuple[str, ...] = ()
    has_flags: bool = False
    defects: tuple[str, ...] = ()
    native_defects: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    native_exceptions: tuple[str, ...] = ()
    later: tuple[tuple[str, str], ...] = ()

    @property
    def queue(self) -> Path:
        """The directory of the queue."""
        return self.directory or REPO / "queues" / self.name

    @property
    def series(self) -> Path:
        """The names of the patches in their order."""
        return self.queue / "series"

    @property
    def patches(self) -> Path:
        """The directory of the patches."""
        below = self.queue / "patches"
        return below if below.is_dir() else self.queue

    @property
    def cover(self) -> Path:
        """The cover letter."""
        return self.queue / "cover-letter.txt"

    @property
    def is_kernel(self) -> bool:
        """True if it is built as a kernel with variants of dm-crypt."""
        return self.variable == "LINUX"

    @property
    def replaced(self) -> tuple[str, ...]:
        """The paths that variants replace: the directory of DRIVER, with a slash at its end, and `other_sources`."""
        return (f"{Path(DRIVER).parent}/", *self.other_sources)

    @property
    def adds_selftests(self) -> bool:
        """True if the queue ends with the kselftests."""
        return self.is_kernel and not self.below and not self.long_term

    @property
    def tested(self) -> str:
        """The flavour that make test builds, and runs in User-Mode Linux."""
        return NATIVE_DEBUG if NATIVE_DEBUG in self.fragments else NATIVE

    @property
    def base_patch(self) -> Path | None:
        """The patch that makes the embedded base of the package's files."""
        return next(iter(self.data("base.patch")), None)

    def data(self, pattern: str) -> list[Path]:
        """Files in tools/targets, of the targets that this one is stacked on and its own."""
        below = get_target(self.below).data(pattern) if self.below else []
        return [*below, *sorted((DATA / self.name).glob(pattern))]

    def exceptions_in(self, flavour: str) -> tuple[str, ...]:
        """The exceptions in a kernel of this flavour."""
        return self.exceptions + (self.native_exceptions if flavour == NATIVE else ())


def config_fragments(
    *native: str, own: str = "", without: str = "", last: Mapping[str, str] | None = None
) -> dict[str, tuple[Path, ...]]:
    """The config fragments of all flavours except `without`, and of User-Mode Linux those of the flavours `native`.

    `own` is the target's own fragment; those of `last`, by flavour, come after all others.
    """
    fast = ("guest", "emulated", "x86", "fast", own)
    fragments = {
        "fast": fast,
        "debug": ("guest", "emulated", "x86", "debug", own),
        RT: ("guest", "emulated", "x86", own, "rt"),
        KCSAN: ("guest", "emulated", "x86", own, "kcsan"),
        **{name: ("guest", "emulated", own, name) for name in PROCESSORS},
        NATIVE: ("guest", "native", own),
        NATIVE_DEBUG: ("guest", "native", "debug", own, "native_debug"),
        XFSTESTS: ("guest", "native", own, "xfstests"),
        MEASURED: ("measured",),
        DISTRIBUTION: ("measured", "distribution"),
        "clang": fast,
        **{name: (*fast, f"compiled/{name}") for name in COMPILE_ONLY if name != "clang"},
        **{name: ("compiled", f"compiled/{name}") for name in CROSS_COMPILE_ONLY},
    }
    for flavour in {without, NATIVE, NATIVE_DEBUG, XFSTESTS, MEASURED, DISTRIBUTION}.difference(native):
        fragments.pop(flavour, None)
    for flavour, name in (last or {}).items():
        fragments[flavour] += (name,)
    return {flavour: tuple(CONFIG / f"{name}.config" for name in names if name) for flavour, names in fragments.items()}


KUNIT = ("units_same_in_one_call",)  # the KUnit tests of a queue that has them
# These need lockdep's knowledge of 7.3, or options of linux-7.3.config.
ONLY_7_3 = ("cryptd_survives_hotplug", "lower_layers_delay_and_retry")
# Inline reads have all the time they take, and nothing to go on with.
NEVER_STOPS = (
    "reads_go_on_in_kcryptd",
    "reads_go_on_in_kcryptd:stopped_reads_have_their_data 1 aes-xts-plain64",
    "reads_go_on_in_kcryptd:stopped_reads_have_their_data 2 aes-xts-plain64",
    "reads_go_on_in_kcryptd:stopped_reads_have_their_data 2 serpent-xts-plain64",
)

DEFECTS = (
    "bad_tags_are_refused",
    "blktests_cases_pass",
    "full_crypto_queue_delays",
    "inline_decryption_does_not_sleep",
    "polled_io_ends",
    "regressions",
    "table",
)

LINUX_5_8 = Target(
    name="linux-5.8",
    upstream="Linux mainline, the tree of the posting",
    tag="v5.8-rc2",
    package=Package("linux-source-5.10", "bullseye-security", "5.10.262-1"),
    blobs={DRIVER: "000ddfab5ba0"},
    commit="48778464bb7d346b47157d21ffde2af6b2d39110",
    directory=REPO,
    fragments=config_fragments(NATIVE, last={ARM64: "arm64_5.8"}),
    other_sources=("crypto/cryptd.c",),
    exceptions=("bad_tags_fail_before_audit", "polled_io_ends", "zoned_writes_stay_in_order", *KUNIT, *ONLY_7_3),
    native_exceptions=(  # fault injection, kmemleak, /dev/mem, the memory controller, DEBUG_ATOMIC_SLEEP
        "allocations_fail_one_by_one",
        "blktests_cases_pass",
        "empty_pools_keep_data",
        "failed_requests_leave_nothing",
        "keys_leave_memory",
        "late_completions",
        "reads_without_memory_fail_or_have_data",
        "swap_over_crypt",
    ),
    later=(("functional/throttled_writer_stops_nobody", "others_write both"),),  # the root cgroup is the last patch
)
LINUX_7_3_NATIVE = (NATIVE_DEBUG, XFSTESTS, MEASURED, DISTRIBUTION)
LINUX_7_3 = Target(
    name="linux-7.3-fixes",
    upstream="Linux mainline, today's",
    tag="v7.3",
    package=Package("linux-source-7.3", "trixie-backports"),
    blobs={DRIVER: "0bd22bda3e2d"},
    fragments=config_fragments(*LINUX_7_3_NATIVE, own="linux-7.3", without="preempt_none"),  # x86 gave it up
    other_sources=("crypto/cryptd.c",),
    has_flags=True,
    defects=DEFECTS,
    exceptions=("throttled_writer_stops_nobody", *KUNIT),
)


def _stacked(name: str, below: Target, **fields: Any) -> Target:
    upstream = f"the tree of {below.name} with its queue"
    return replace(below, name=name, upstream=upstream, blobs={}, below=below.name, defects=(), **fields)


LINUX_7_3_BIOS = _stacked("linux-7.3-bios", LINUX_7_3)
LINUX_7_3_SECTORS = _stacked("linux-7.3-sectors", LINUX_7_3_BIOS, in_package=True)
LINUX_7_3_LIBRARY = _stacked("linux-7.3-library", LINUX_7_3_SECTORS, in_package=False)
LINUX_7_3_UNITS = _stacked(
    "linux-7.3-units",
    LINUX_7_3_LIBRARY,
    fragments=config_fragments(
        *LINUX_7_3_NATIVE,
        own="linux-7.3",
        without="preempt_none",
        last=dict.fromkeys(("debug", *PROCESSORS, *LINUX_7_3_NATIVE), "linux-7.3-units"),  # its KUnit tests
    ),
    exceptions=("throttled_writer_stops_nobody",),
)
LINUX_7_3_DM = _stacked("linux-7.3-dm", LINUX_7_3_UNITS)
LINUX_6_12 = Target(
    name="linux-6.12",
    upstream="Linux 6.12, a long-term kernel",
    tag="v6.12",
    package=Package("linux-source-6.12", "trixie-security"),
    blobs={DRIVER: "3c2334232cd0"},
    long_term=True,
    in_package=True,
    fragments=config_fragments(NATIVE, NATIVE_DEBUG, own="linux-6.12"),
    other_sources=("crypto/cryptd.c",),
    has_flags=True,
    defects=(*DEFECTS, "reads_without_memory_fail_or_have_data"),
    native_defects=("full_crypto_queue_delays", "polled_io_ends", "table"),
    exceptions=("throttled_writer_stops_nobody", *KUNIT, *ONLY_7_3, *NEVER_STOPS),
)
LINUX_6_1 = Target(
    name="linux-6.1",
    upstream="Linux 6.1, a long-term kernel",
    tag="v6.1",
    package=Package("linux-source-6.1", "bookworm-security"),
    blobs={DRIVER: "ade39bbe4911"},
    long_term=True,
    in_package=True,
    fragments=config_fragments(NATIVE, NATIVE_DEBUG, own="linux-6.1", last={NATIVE_DEBUG: "native_6.1"}),
    other_sources=("crypto/cryptd.c",),
    has_flags=True,
    defects=("full_crypto_queue_delays", "reads_without_memory_fail_or_have_data"),  # the debug kernel finds others
    native_defects=("full_crypto_queue_delays",),
    exceptions=(
        *("blktests_cases_pass", "throttled_writer_stops_nobody", *KUNIT, *ONLY_7_3, *NEVER_STOPS),
        # reads that hard interrupts complete go to kcryptd, whatever the flags
        "regressions:inline_as_the_flags_say hardirq",
        "regressions:inline_as_the_flags_say softirq",
        # authenc() is fixed in 6.18
        *(
            f"authenc_waits_for_a_full_queue:no_io_fails {case}"
            for case in ("default", "default cryptd", "both", "both cryptd")
        ),
    ),
)
MAKE = ("make", "-j{jobs}", "--output-sync=target")
CONFIGURE = (
    *("./configure", "--prefix={prefix}", "--with-crypto_backend=openssl", "--enable-luks2-reencryption"),
    *("--disable-nls", "--with-tmpfilesdir=no"),  # nothing may be installed outside the prefix
    # The variables of the caller's environment must not count.
    *("CC=gcc", "CPPFLAGS=", "LDFLAGS=", "LIBS=", "CFLAGS={cflags}"),
)
CRYPTSETUP_BUILD = Build(
    packages="cryptsetup",
    configure=(("sh", "./autogen.sh"), CONFIGURE),
    make=((*MAKE, "all"), (*MAKE, "check", "TESTS=")),  # builds the test programs and runs none
    program="installed/sbin/cryptsetup",
    install=((*MAKE, "install", "DESTDIR="),),
)
CRYPTSETUP_2_3 = Target(
    name=CRYPTSETUP,
    upstream="cryptsetup 2.3, as it was when the kernel queue was posted",
    tag="v2.3.3",
    package=Package("cryptsetup", "bullseye", "2:2.3.7-1+deb11u1"),
    blobs={
        "lib/libcryptsetup.h": "bfb0ca1b53ad",
        "lib/luks2/luks2_json_metadata.c": "e346067b761f",
        "lib/setup.c": "567f26249a70",
        "src/cryptsetup.c": "c527690e6b00",
    },
    variable="CRYPTSETUP",
    lists=("cryptsetup@lists.linux.dev",),
    tracked=("docs", "misc", "m4/ax_check_compile_flag.m4"),
    package_blobs={
        "lib/libcryptsetup.h": "43c4662018c4",
        "src/cryptsetup.c": "d0967f1e4135",
    },
    commit="74e94e7bdd12fdfd4e5869d14c91cee2fe242eeb",
    directory=REPO / "cryptsetup-patches",
    build=CRYPTSETUP_BUILD,
    guests=(DEFAULT,),
    tests=("cryptsetup", "cryptsetup_on_base"),
)
CRYPTSETUP_2_8 = Target(
    name="cryptsetup-2.8",
    upstream="cryptsetup 2.8, which Debian has in sid",
    tag="v2.8.8",
    package=Package("cryptsetup", "sid", "2.8.*"),
    blobs={
        "lib/libdevmapper.c": "83215b5149fa",
        "lib/luks2/luks2_json_metadata.c": "7f4ec3368724",
        "lib/setup.c": "b3f64a562f44",
        "src/cryptsetup.c": "0d36e3b5749e",
        "tests/api-test-2.c": "c2da60a3e49c",
        "tests/device-test": "c6e745da7021",
    },
    variable="CRYPTSETUP",
    lists=("cryptsetup@lists.linux.dev",),
    tracked=("docs", "misc", "m4/ax_check_compile_flag.m4"),
    has_flags=True,
    build=replace(
        CRYPTSETUP_BUILD,
        configure=(("sh", "./autogen.sh"), (*CONFIGURE, "--disable-asciidoc", "--disable-ssh-token")),
    ),
    guests=(DEFAULT, "linux-7.3-fixes"),  # a kernel without high_priority, and one that has all flags
    tests=("cryptsetup/own_suite", "cryptsetup/random_flags_as_released"),
)
DRACUT = Target(
    name="dracut",
    upstream="dracut, which Debian has in sid",
    tag="112",
    package=Package("dracut", "sid"),
    blobs={"modules.d/70crypt/cryptroot-ask.sh": "952a5e71d3fa"},
    variable="DRACUT",
    lists=("initramfs@vger.kernel.org",),
    own_test=("make", "-C", "test/TEST-83-CRYPTROOT-ASK", "all"),
    guests=(DEFAULT,),
    tests=("dracut",),
)
FEATURES = tuple(f"-D{name}=enabled" for name in ("blkid", "fdisk", "libcryptsetup", "libmount", "openssl", "repart"))
SYSTEMD = Target(
    name="systemd",
    upstream="systemd, which Debian has in testing",
    tag="v262",
    package=Package("systemd", "testing"),  # sid's index can name a tarball that the archive has removed
    blobs={
        "man/crypttab.xml": "2e93e11d26ec",
        "man/repart.d.xml": "3e012f86194d",
        "src/cryptsetup/cryptsetup.c": "fb616a3426c8",
        "src/repart/repart.c": "388f25c39894",
        "src/shared/cryptsetup-util.h": "0a293c87bac7",
        "test/units/TEST-24-CRYPTSETUP.sh": "a2afd7d72095",
        "test/units/TEST-58-REPART.sh": "c862c07d2efb",
    },
    variable="SYSTEMD",
    lists=("systemd-devel@lists.freedesktop.org",),
    build=Build(
        packages="systemd",
        configure=(("meson", "setup", "build", "-Dc_args=", "-Dvcs-tag=false", "--auto-features=disabled", *FEATURES),),
        make=(("ninja", "-C", "build", "-j{jobs}", "systemd-cryptsetup", "systemd-repart"),),
        program="source/build/systemd-cryptsetup",
    ),
    guests=(DEFAULT, "linux-7.3-fixes"),  # a kernel without high_priority, and one that has all flags
    tests=("systemd",),
    cryptsetup="cryptsetup-2.8",
)
TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        *(LINUX_5_8, LINUX_7_3, LINUX_6_12, LINUX_6_1, CRYPTSETUP_2_3, CRYPTSETUP_2_8, DRACUT, SYSTEMD),
        *(LINUX_7_3_BIOS, LINUX_7_3_SECTORS, LINUX_7_3_LIBRARY, LINUX_7_3_UNITS, LINUX_7_3_DM),
    )
}
VARIABLES = tuple(dict.fromkeys(target.variable for target in TARGETS.values()))


def stack_below(target: Target) -> list[Target]:
    """The targets that the queue is stacked on, the lowest first."""
    return [*stack_below(get_target(target.below)), get_target(target.below)] if target.below else []


def top_of_stack(target: Target) -> Target:
    """The last queue that is stacked on this one, or itself."""
    above = [other for other in TARGETS.values() if other.below == target.name]
    return top_of_stack(above[0]) if above else target


def get_target(name: str) -> Target:
    """The target called `name`. Raises UserError with the known names when there is none."""
    try:
        return TARGETS[name]
    except KeyError:
        raise UserError(f"unknown target: {name}\n  TARGET= takes one of: {', '.join(TARGETS)}") from None
