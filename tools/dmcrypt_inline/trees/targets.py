"""The targets: one row a tree and version that a queue applies to.

Adding a backport is a new row here and a new directory for its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..common.errors import UserError
from ..common.paths import REPO, TOOLS

CONFIG = TOOLS / "config"
NATIVE, NATIVE_DEBUG = "native", "native_debug"  # User-Mode Linux
MEASURED = "measured"  # the same, made to measure real ciphers
FLAVOURS = ("fast", "debug", NATIVE, NATIVE_DEBUG, MEASURED)  # of kernels that run
# Kernels that are only configured, for dm-crypt to be compiled against: the fast one but for one thing, and for
# other processors.
COMPILE_ONLY = ("clang", "preempt", "preempt_none", "one_cpu", "no_keys")
CROSS_COMPILE_ONLY = ("i386", "arm", "s390")
NATIVE_FRAGMENTS = (CONFIG / "guest.config", CONFIG / "native.config")
DEFAULT = "linux-5.8"  # where one target is meant and none is named
CRYPTSETUP = "cryptsetup-2.3"  # the target whose programs the guests use


@dataclass(frozen=True)
class Recipe:
    """How the embedded base comes from a Debian package, then a patch of ours.

    `suite` holds `package` at exactly `version`, or in a version that moves when
    that is empty (a suite that ends in -security is looked for in the security
    archive); with `source` it is the source package. `tarball` lies in it. `patch`
    takes the tarball's tree back to where the queue applies (None: it is there),
    `blobs` says what it must be then (see Target).
    """

    package: str
    suite: str
    version: str
    tarball: str
    patch: Path | None
    blobs: Mapping[str, str]
    source: bool = False


@dataclass(frozen=True)
class Autotools:
    """How a target that is no kernel is built: `prepare` in its sources, ./configure with `options`, make, install.

    `prepare` are commands; `goals` are the arguments of each make before `make install`; `program`, below the prefix,
    prints the version with --version.
    """

    prepare: tuple[tuple[str, ...], ...]
    options: tuple[str, ...]
    goals: tuple[tuple[str, ...], ...]
    program: str


@dataclass(frozen=True)
class Target:
    """One upstream tree at one version, with the queue that applies to it.

    `variable` gives the user's own tree, as make knows it; `blobs` maps paths to
    the abbreviated git blob ids that such a tree must have; `products` are git
    pathspecs of what a build inside it leaves and what would disturb one of ours,
    or is merely big. `prefixes` are what a patch's subject may start with (none:
    anything). `commit` is the tag's (40 hex digits; "": not known, then only the user's
    own tree tells, by its tag or by the commit that was taken); `lists` are the addresses
    for trees that cannot say who maintains them; `abi` maps paths to numbers there that others rely on and no test
    in a guest sees, as the source spells them. `below` names the target whose tree, its queue applied, is the base of
    a stacked queue. `long_term` says that where it is not named only its mails are checked and its NATIVE kernel is
    tested, `in_package` that its driver is the one for its kernels in the package (see package.py).

    Of programs only: `build`. Of kernels only: `source` is dm-crypt.c, `other_sources` the files of further modules
    that the queue changes, outside the directory of `source`: variants replace all of these; `fragments` maps a
    flavour to its config fragments, later ones winning; `mend` is a patch that User-Mode Linux
    needs, for the sources that kernels are built from alone, `measuring` a directory of patches for those of the
    flavour MEASURED; `has_flags` says that the base knows the flags, the queue being fixes; `defects`
    names the kselftests that find the base wrong, `defects_natively` those that do in the NATIVE flavour, where that
    is not the `tested` one; `lacks` those that have nothing to test in this kernel, or "test:claim" where it does
    otherwise, base and queue alike, and `lacks_natively` those that need what its NATIVE flavour has not: only they
    may skip, and these claims fail.
    """

    name: str
    upstream: str
    tag: str
    variable: str
    series: Path
    patches: Path
    cover: Path
    recipe: Recipe
    blobs: Mapping[str, str]
    products: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    commit: str = ""
    lists: tuple[str, ...] = ()
    abi: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    below: str = ""
    long_term: bool = False
    in_package: bool = False
    build: Autotools | None = None
    source: str = ""
    other_sources: tuple[str, ...] = ()
    fragments: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    mend: Path | None = None
    measuring: Path | None = None
    has_flags: bool = False
    defects: tuple[str, ...] = ()
    defects_natively: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    lacks_natively: tuple[str, ...] = ()

    def lacking(self, flavour: str) -> tuple[str, ...]:
        """The kselftests that may skip on a kernel of this flavour."""
        return self.lacks + (self.lacks_natively if flavour == NATIVE else ())

    @property
    def replaced(self) -> tuple[str, ...]:
        """The paths that variants replace: the directory of `source`, with a slash at its end, and `other_sources`."""
        return (f"{Path(self.source).parent}/", *self.other_sources)

    @property
    def adds_selftests(self) -> bool:
        """Whether the queue ends with the kselftests; long-term kernels take fixes alone."""
        return self.is_kernel and not self.below and not self.long_term

    @property
    def tested(self) -> str:
        """The flavour that make test builds, and runs natively."""
        return NATIVE_DEBUG if NATIVE_DEBUG in self.fragments else NATIVE

    @property
    def is_kernel(self) -> bool:
        """Whether it is built as a kernel with variants of dm-crypt."""
        return bool(self.fragments)


# Trees of other times spell the device mapper otherwise.
LINUX_PREFIXES = (
    *("dm: ", "dm crypt: ", "dm-crypt: "),
    *("crypto: ", "lib/crypto: ", "Documentation: ", "selftests: "),
)
LINUX_PRODUCTS = (
    *("*.o", "*.a", "*.ko", "*.cmd", "*.mod", "*.mod.c", "modules.order", "Module.symvers"),
    *(".config", ".config.old", "include/config", "include/generated", "arch/x86/include/generated"),
    *("vmlinux", "System.map", "arch/x86/boot/bzImage"),
)
CRYPTSETUP_PRODUCTS = (
    *("*.o", "*.a", "*.lo", "*.la", ".libs", "*/.libs/*", "*/.deps/*", "*/.dirstamp"),
    *("Makefile", "Makefile.in", "po/Makefile", "po/Makefile.in", "tests/Makefile", "tests/Makefile.in"),
    *("ABOUT-NLS", "aclocal.m4", "autom4te.cache", "ar-lib", "compile", "config.guess", "config.h", "config.h.in"),
    *("config.h.in~", "config.log", "config.rpath", "config.status", "config.sub", "configure", "configure~"),
    *("depcomp", "install-sh", "libtool", "ltmain.sh", "m4", "missing", "stamp-h1", "test-driver"),
    *("po/*.gmo", "po/*.header", "po/*.sed", "po/*.sin", "po/Makefile.in.in", "po/Makevars.template", "po/POTFILES"),
    *("po/Rules-quot", "po/stamp-po", "lib/libcryptsetup.pc", "scripts/cryptsetup.conf"),
    *("cryptsetup", "cryptsetup-reencrypt", "integritysetup", "veritysetup", "tests/*.log", "tests/*.trs"),
    *("tests/api-test", "tests/api-test-2", "tests/differ", "tests/unit-utils-io", "tests/vectors-test"),
)


def linux_fragments(*own: Path, without: tuple[str, ...] = ()) -> dict[str, tuple[Path, ...]]:
    """The config fragments of all flavours but those of User-Mode Linux and those `without` which the target does.

    `own`, what is different in its tree, wins; only what makes one of COMPILE_ONLY and CROSS_COMPILE_ONLY different
    comes later (clang needs nothing).
    """
    emulated = (CONFIG / "guest.config", CONFIG / "emulated.config")
    found = {name: (*emulated, CONFIG / f"{name}.config", *own) for name in ("fast", "debug")}
    for names, common in ((COMPILE_ONLY, found["fast"]), (CROSS_COMPILE_ONLY, (CONFIG / "compiled.config",))):
        for name in names:
            different = CONFIG / "compiled" / f"{name}.config"
            found[name] = (*common, *([different] if different.is_file() else []))
    return {name: fragments for name, fragments in found.items() if name not in without}


# The KUnit tests of a queue that has them
KUNIT = ("units_same_in_one_call",)
# Inline reads have all the time they take, and nothing to go on with.
NEVER_STOPS = (
    "reads_go_on_in_kcryptd",
    "reads_go_on_in_kcryptd:stopped_reads_have_their_data 1 aes-xts-plain64",
    "reads_go_on_in_kcryptd:stopped_reads_have_their_data 2 aes-xts-plain64",
    "reads_go_on_in_kcryptd:stopped_reads_have_their_data 2 serpent-xts-plain64",
    "softirqs_stay_short:small_reads_wait_too",
)


def _long_term(
    version: str,
    *,
    suite: str,
    blob: str,
    target_version: str,
    mend: str,
    defects: tuple[str, ...],
    defects_natively: tuple[str, ...],
    native: tuple[Path, ...] = (),
    otherwise: tuple[str, ...] = (),
) -> Target:
    """A long-term kernel as Debian's `suite` has it, with the queue in queues/linux-<version>.

    `blob`: of its dm-crypt.c; `mend`: the target whose native.patch it takes; `native`: what its User-Mode Linux has
    otherwise; `otherwise`: claims that are not so in it.
    """
    name, queue, driver = f"linux-{version}", REPO / "queues" / f"linux-{version}", "drivers/md/dm-crypt.c"
    own = CONFIG / f"{name}.config"
    debug = (CONFIG / "debug.config", own, CONFIG / "native_debug.config", *native)
    return Target(
        name=name,
        upstream=f"Linux {version}, a long-term kernel",
        tag=f"v{version}",
        variable="LINUX",
        series=queue / "series",
        patches=queue / "patches",
        cover=queue / "cover-letter.txt",
        recipe=Recipe(
            package=f"linux-source-{version}",
            suite=suite,
            version="",
            tarball=f"usr/src/linux-source-{version}.tar.xz",
            patch=None,
            blobs={driver: blob},
        ),
        blobs={driver: blob},
        products=LINUX_PRODUCTS,
        prefixes=LINUX_PREFIXES,
        abi={driver: (f".version = {target_version},",)},
        long_term=True,
        in_package=True,
        source=driver,
        fragments=linux_fragments(own) | {NATIVE: (*NATIVE_FRAGMENTS, own), NATIVE_DEBUG: (*NATIVE_FRAGMENTS, *debug)},
        mend=TOOLS / "targets" / mend / "native.patch",
        has_flags=True,
        defects=defects,
        defects_natively=defects_natively,
        lacks=("throttled_writer_stops_nobody", *KUNIT, *NEVER_STOPS, *otherwise),
    )


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="linux-5.8",
            upstream="Linux mainline, the tree of the posting",
            tag="v5.8-rc2",
            variable="LINUX",
            series=REPO / "series",
            patches=REPO / "patches",
            cover=REPO / "cover-letter.txt",
            recipe=Recipe(
                package="linux-source-5.10",
                suite="bullseye-security",
                version="5.10.262-1",
                tarball="usr/src/linux-source-5.10.tar.xz",
                patch=TOOLS / "targets" / "linux-5.8" / "base.patch",
                blobs={
                    "drivers/md/dm-crypt.c": "000ddfab5ba0",
                    "Documentation/admin-guide/device-mapper/dm-crypt.rst": "eea3b79d61ee",
                },
            ),
            blobs={"drivers/md/dm-crypt.c": "000ddfab5ba0"},
            products=LINUX_PRODUCTS,
            prefixes=LINUX_PREFIXES,
            commit="48778464bb7d346b47157d21ffde2af6b2d39110",
            abi={"drivers/md/dm-crypt.c": (".version = {1, 22, 0},",)},
            source="drivers/md/dm-crypt.c",
            other_sources=("crypto/cryptd.c",),
            fragments=linux_fragments() | {NATIVE: NATIVE_FRAGMENTS},
            mend=TOOLS / "targets" / "linux-5.8" / "native.patch",
            lacks=("polled_io_ends", "zoned_writes_stay_in_order", *KUNIT),
            lacks_natively=(  # fault injection, kmemleak, /dev/mem, the memory controller
                "empty_pools_keep_data",
                "failed_requests_leave_nothing",
                "keys_leave_memory",
                "late_completions",
                "reads_without_memory_fail_or_have_data",
                "swap_over_crypt",
            ),
        ),
        Target(
            name="linux-7.3-fixes",
            upstream="Linux mainline, today's",
            tag="v7.3",
            variable="LINUX",
            series=REPO / "queues" / "linux-7.3-fixes" / "series",
            patches=REPO / "queues" / "linux-7.3-fixes" / "patches",
            cover=REPO / "queues" / "linux-7.3-fixes" / "cover-letter.txt",
            recipe=Recipe(
                package="linux-source-7.3",
                suite="trixie-backports",
                version="",
                tarball="usr/src/linux-source-7.3.tar.xz",
                patch=None,
                blobs={"drivers/md/dm-crypt.c": "0bd22bda3e2d"},
            ),
            blobs={"drivers/md/dm-crypt.c": "0bd22bda3e2d"},
            products=LINUX_PRODUCTS,
            prefixes=LINUX_PREFIXES,
            abi={"drivers/md/dm-crypt.c": (".version = {1, 29, 0},",)},
            source="drivers/md/dm-crypt.c",
            fragments=linux_fragments(CONFIG / "linux-7.3.config", without=("preempt_none",))  # x86 gave it up
            | {
                NATIVE_DEBUG: (
                    *NATIVE_FRAGMENTS,
                    CONFIG / "debug.config",
                    CONFIG / "linux-7.3.config",
                    CONFIG / "native_debug.config",
                ),
                MEASURED: (CONFIG / "measured.config",),
            },
            mend=TOOLS / "targets" / "linux-7.3-fixes" / "native.patch",
            measuring=TOOLS / "bench-native" / "linux-7.3-fixes",
            has_flags=True,
            defects=(
                "async_write_waits_for_tags",
                "bad_tags_are_refused",
                "full_crypto_queue_delays",
                "nothing_sleeps_in_softirq",
                "nothing_sleeps_under_rcu",
                "polled_io_ends",
                "regressions",
                "table",
            ),
            lacks=("throttled_writer_stops_nobody", *KUNIT),
        ),
        _long_term(
            "6.12",
            suite="trixie-security",
            blob="3c2334232cd0",
            target_version="{1, 28, 0}",
            mend="linux-6.12",
            defects=(
                "async_write_waits_for_tags",
                "bad_tags_are_refused",
                "full_crypto_queue_delays",
                "nothing_sleeps_in_softirq",
                "polled_io_ends",
                "reads_without_memory_fail_or_have_data",
                "regressions",
                "table",
            ),
            defects_natively=("full_crypto_queue_delays", "polled_io_ends", "table"),
        ),
        _long_term(
            "6.1",
            suite="bookworm-security",
            blob="ade39bbe4911",
            target_version="{1, 24, 0}",
            mend="linux-5.8",
            native=(CONFIG / "native_6.1.config",),
            defects=("full_crypto_queue_delays", "reads_without_memory_fail_or_have_data"),  # others: debug kernel
            defects_natively=("full_crypto_queue_delays",),
            otherwise=(  # reads that hard interrupts complete go to kcryptd, whatever the flags
                "regressions:inline_as_the_flags_say hardirq",
                "regressions:inline_as_the_flags_say softirq",
            ),
        ),
        Target(
            name=CRYPTSETUP,
            upstream="cryptsetup 2.3, as it was when the kernel queue was posted",
            tag="v2.3.3",
            variable="CRYPTSETUP",
            series=REPO / "cryptsetup-patches" / "series",
            patches=REPO / "cryptsetup-patches",
            cover=REPO / "cryptsetup-patches" / "cover-letter.txt",
            recipe=Recipe(
                package="cryptsetup",
                suite="bullseye",
                version="2:2.3.7-1+deb11u1",
                tarball="cryptsetup_2.3.7.orig.tar.xz",
                patch=TOOLS / "targets" / "cryptsetup-2.3" / "base.patch",
                blobs={
                    "lib/libcryptsetup.h": "43c4662018c4",
                    "lib/libdevmapper.c": "7abcf8c55096",
                    "lib/luks2/luks2_json_metadata.c": "ee7751b1f0e6",
                    "lib/utils_dm.h": "706799bb5a2a",
                    "man/cryptsetup.8": "c8d6b528899b",
                    "src/cryptsetup.c": "d0967f1e4135",
                    "tests/device-test": "1e3b4f14f79c",
                },
                source=True,
            ),
            blobs={
                "lib/libcryptsetup.h": "bfb0ca1b53ad",
                "lib/libdevmapper.c": "a82163b04ed8",
                "lib/luks2/luks2_json_metadata.c": "e346067b761f",
                "lib/setup.c": "567f26249a70",
                "lib/utils_crypt.h": "32b77cb8f7ad",
                "lib/utils_dm.h": "1501eb599e65",
                "man/cryptsetup.8": "bc3fff61fadb",
                "src/cryptsetup.c": "c527690e6b00",
                "tests/api-test-2.c": "8386c081ab9f",
                "tests/api_test.h": "d1d9b00df1f7",
                "tests/device-test": "0898b455289d",
                "tests/luks2-integrity-test": "0ba4b67211ff",
                "tests/luks2-reencryption-test": "e0529c90947a",
                "tests/test_utils.c": "0b00005c80a1",
            },
            products=CRYPTSETUP_PRODUCTS,
            build=Autotools(
                prepare=(("sh", "./autogen.sh"),),
                options=(
                    *("--with-crypto_backend=openssl", "--enable-luks2-reencryption"),
                    *("--disable-nls", "--with-tmpfilesdir=no"),  # nothing may be installed outside the prefix
                ),
                goals=(("all",), ("check", "TESTS=")),  # builds the test programs and runs none
                program="sbin/cryptsetup",
            ),
            commit="74e94e7bdd12fdfd4e5869d14c91cee2fe242eeb",
            lists=("cryptsetup@lists.linux.dev",),
            abi={
                "lib/libcryptsetup.h": (
                    "#define CRYPT_ACTIVATE_NO_READ_WORKQUEUE (1 << 24)",
                    "#define CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE (1 << 25)",
                )
            },
        ),
    )
}


def _stack(below: str, name: str, directory: Path, *, in_package: bool = False, kunit: bool = False) -> None:
    """Add the queue in `directory`, on top of the queue of `below`, and in all else what that is.

    `kunit`: it has KUnit tests, which a fragment of its own turns on.
    """
    under = TARGETS[below]
    own = {each: (*under.fragments[each], CONFIG / f"{name}.config") for each in ("debug", NATIVE_DEBUG, MEASURED)}
    TARGETS[name] = replace(
        under,
        name=name,
        upstream=f"the tree of {below}, its queue applied",
        series=directory / "series",
        patches=directory / "patches",
        cover=directory / "cover-letter.txt",
        blobs={},
        below=below,
        in_package=in_package,
        fragments={**under.fragments, **(own if kunit else {})},
        defects=(),
        lacks=tuple(test for test in under.lacks if not (kunit and test in KUNIT)),
    )


_stack("linux-7.3-fixes", "linux-7.3-sectors", REPO / "queues" / "linux-7.3-sectors", in_package=True)
_stack("linux-7.3-sectors", "linux-7.3-library", REPO / "queues" / "linux-7.3-library")
_stack("linux-7.3-library", "linux-7.3-units", REPO / "queues" / "linux-7.3-units", kunit=True)


def stack_below(target: Target) -> list[Target]:
    """The targets that the queue is stacked on, the lowest first."""
    return [*stack_below(get_target(target.below)), get_target(target.below)] if target.below else []


def top_of_stack(target: Target) -> Target:
    """The last queue that is stacked on this one, or itself."""
    above = [other for other in TARGETS.values() if other.below == target.name]
    return top_of_stack(above[0]) if above else target


def get_target(name: str) -> Target:
    """The target called `name`; UserError lists the known names otherwise."""
    try:
        return TARGETS[name]
    except KeyError:
        raise UserError(f"unknown target: {name}\n  TARGET= takes one of: {', '.join(TARGETS)}") from None
