"""The root file system of guests with a foreign processor: Debian packages of that processor, unpacked."""

import hashlib
import platform
from pathlib import Path

from ..common.errors import UserError
from ..common.host import KEYRING, ensure_packages
from ..common.paths import BUILD, GIB, publish, use_entry
from ..common.run import run
from ..trees.archive import uris_of

PACKAGES = (
    "base-files,bash,coreutils,cryptsetup-bin,dash,diffutils,dmsetup,e2fsprogs,findutils,fio,grep,gzip,keyutils,"
    "kmod,libc-bin,mawk,mount,openssl,perl-base,procps,python3,sed,util-linux"
)


def foreign_root(machine: str, scripts: Path) -> Path:
    """The root for a processor (Debian's name), with the directory `scripts` as /guest; made once, in the cache.

    mmdebstrap unpacks the packages of this machine's own release, and verifies their signatures. It runs none of them.
    Raises UserError where that is not possible.
    """
    host, log = platform.freedesktop_os_release(), BUILD / f"root-{machine}.log"
    if host["ID"] != "debian":
        raise UserError(f"guests of {machine} need Debian's archive: run this on Debian")
    suite = host["VERSION_CODENAME"]
    options = ("--variant=extract", f"--architectures={machine}", f"--include={PACKAGES}", "--skip=output/dev")
    needed = {path.name: path.read_text() for path in (scripts / "init.sh", scripts / "fstab")}
    identity = hashlib.sha256(repr((suite, options, needed)).encode()).hexdigest()[:16]
    final = use_entry("roots", f"{machine}-{identity}")
    if final.exists():
        return final
    ensure_packages(machine)
    [uri, *_] = uris_of(suite, log)

    def make(part: Path) -> None:
        source, tar = f"deb [signed-by={KEYRING}] {uri} {suite} main", part / "root.tar"
        run(["mmdebstrap", *options, suite, tar, source], log=log, timeout=1800)
        run(["tar", "-xf", tar, "-C", part, "--no-same-owner"], log=log, timeout=600)
        tar.unlink()
        (part / "dev").mkdir()
        (part / "usr/bin/awk").symlink_to("mawk")  # a script of the package would do it
        (part / "guest").mkdir()
        for name, text in needed.items():
            (part / "guest" / name).write_text(text)
            (part / "guest" / name).chmod(0o755)

    return publish(final, make, GIB, f"unpacking Debian's packages for {machine}", log)
