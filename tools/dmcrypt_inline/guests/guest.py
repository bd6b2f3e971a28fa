"""Boot a kernel with the host's own user space and run one script in it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..common import host
from ..common.errors import UserError
from ..common.paths import TOOLS
from ..common.run import CommandError, run
from ..kernels.build import USER_MODE, Kernel
from .kernel_log import KernelWarning, find_warnings

GUEST_SCRIPTS = TOOLS / "guest"
INIT = GUEST_SCRIPTS / "init.sh"
SHELL = "shell.sh"  # the only script whose input and output are the console's; enter.sh knows it too
SHARE = "run/guest"  # where the guest finds the shared directory; init.sh and enter.sh know it too
SHARE_TAG = "virtme.initmount0"  # what virtme-run calls the first --rwdir
# The emulator runs the string instructions that "erms" advertises byte by byte,
# which makes every copy in kernel and libc look far too expensive.
CPU = "max,-erms"
# In place of an accelerator: TCG with one CPU whose clock counts instructions, a nanosecond each, and follows
# the host's only while the CPU is idle. What keeps the CPU busy takes the same time whatever else the host does.
COUNTED = "icount"
COUNTED_ARGS = ("-icount", "shift=0")
MEMORY = "3G"
GRACE = 20.0  # seconds for what a guest still has to say after its kernel's first warning
POLL = 0.2  # seconds between two looks at what the guest wrote
TAIL_LINES = 25

# An oops or a panic ends the guest: with panic=-1 what virtme-run starts, User-Mode Linux by itself.
KERNEL_ARGS = ("loglevel=7", "oops=panic")
# The root never changes under the guest, so it may cache all of it; the shared directory is not cached.
# HPET, the default clock under TCG, costs more than the I/O under test.
EMULATED_ARGS = (
    "console=ttyS0",
    "earlyprintk=serial,ttyS0,115200",
    "panic=-1",
    "ro",
    "rootfstype=9p",
    "rootflags=version=9p2000.L,trans=virtio,access=any,msize=524288,cache=loose",
    "clocksource=tsc",
    "tsc=reliable",
    # Late kernels forget for a moment, while they identify the boot CPU, that it has five levels of page tables:
    # KASAN then takes what an interrupt touches for a wild access (seen on 7.3.4).
    "no5lvl",
)


# The consoles of User-Mode Linux. "stderr" is one for the boot only; afterwards the first of the others writes there.
MESSAGES = ("stderr=1", "con=null", "con0=null,fd:2")  # to standard error
TERMINAL = ("con=null", "con0=fd:0,fd:1")  # the caller's is the console
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class GuestResult:
    """How one guest run ended.

    `status` is the script's exit status, None when the guest ended before the
    script did; `why` then says how. `seconds` is the time of the whole run.
    `console` is the kernel's log, `output` what the script printed, `results`
    the directory of the files it left.
    """

    name: str
    status: int | None
    why: str
    seconds: float
    accel: str
    console: Path
    output: Path
    results: Path
    warnings: tuple[KernelWarning, ...]

    def require_success(self) -> None:
        """Raise UserError unless the script succeeded and the kernel had nothing to complain about."""
        if self.status == 0 and not self.warnings:
            return
        if self.warnings:
            first = self.warnings[0]
            shown, what = first.excerpt, f"the kernel complained {len(self.warnings)} times, first: {first.first}"
        elif self.status is None:
            shown, what = tail(self.console), self.why
        else:
            shown, what = tail(self.output), f"the script ended with exit status {self.status}"
        raise UserError(
            f"guest {self.name}: {what}\n  console: {self.console}\n  output: {self.output}\n{indented(shown)}"
        )


def indented(text: str) -> str:
    """The lines of a log, set off from what is said about them."""
    return "\n".join("    " + line for line in text.splitlines())


def tail(path: Path) -> str:
    """The last lines of a log, "" when there is none."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-TAIL_LINES:])
    except OSError:
        return ""


def run_guest(
    kernel: Kernel,
    script: str,
    *,
    name: str,
    out: Path,
    accel: str,
    timeout: float,
    inputs: Mapping[str, Path] | None = None,
    env: Mapping[str, str] | None = None,
    cpus: int = 2,
    memory: str = MEMORY,
    kernel_args: Sequence[str] = (),
    qemu_args: Sequence[str] = (),
    expected: Sequence[str] = (),
    grace: float = GRACE,
    on_line: Callable[[str], None] | None = None,
) -> GuestResult:
    """Run `script` (a file of tools/guest) as root in a guest.

    inputs: names below $INPUT, and the host's files or directories to copy there;
    modules/*.ko can be loaded with modprobe. out: the run's own directory, emptied
    first. accel: "kvm", "tcg" or COUNTED (see machine.py), "native" for User-Mode Linux.
    timeout, grace: seconds for all, and seconds left after the kernel's first
    warning. cpus: how many (User-Mode Linux and COUNTED have one). qemu_args: more
    devices, not for User-Mode Linux.
    expected: see kernel_log.find_warnings. on_line: gets each line that the script prints.

    Raises UserError when the guest cannot even be started.
    """
    share = _prepare(kernel, out, {**(inputs or {}), "guest": GUEST_SCRIPTS}, env or {})
    console, output = out / "console.log", share / "output"
    kernel_args = (*KERNEL_ARGS, *kernel_args)
    if kernel.arch == USER_MODE:
        pidfile = out / "uml" / "guest" / "pid"
        argv = _user_mode(kernel, script, out, memory, (*MESSAGES, *kernel_args))
    else:
        pidfile = out / "qemu.pid"
        counted = accel == COUNTED
        argv = _virtme_run(kernel, share, accel=accel, cpus=1 if counted else cpus, memory=memory)
        argv += ["--show-boot-console", "--script-sh", "true"]  # it wants no terminal then; _append tells what boots
        argv += ["--qemu-opts", "-name", "guest", "-pidfile", pidfile, *_append(script, kernel_args)]
        argv += [] if accel == "kvm" else ["-cpu", CPU]
        argv += COUNTED_ARGS if counted else ()
        argv += qemu_args
    watch = _Watch(console, output, pidfile, expected, grace, on_line)
    why = "the guest ended before its script did"
    start = time.monotonic()
    with ExitStack() as stack:
        if kernel.arch == USER_MODE and cpus == 1:
            argv = [*stack.enter_context(_on_one_cpu()), *argv]
        stack.enter_context(watch)
        try:
            # The kernel's console is the program's standard error.
            run(argv, log=console, timeout=timeout, env={"TMPDIR": _for_memory(out, memory)}, check=False)
        except CommandError as error:
            if error.completed.seconds < timeout:
                raise
            why = f"the guest did not end within {timeout:.0f} s"
    return GuestResult(
        name=name,
        status=_status(share / "status"),
        why=watch.stopped or why,
        seconds=time.monotonic() - start,
        accel=accel,
        console=console,
        output=output,
        results=share / "results",
        warnings=find_warnings(console.read_text(errors="replace"), expected),
    )


def open_shell(
    kernel: Kernel,
    *,
    out: Path,
    accel: str,
    inputs: Mapping[str, Path],
    env: Mapping[str, str],
) -> None:
    """Run shell.sh of tools/guest in a guest whose console is the caller's terminal, for as long as it takes.

    The rest is as for `run_guest`. Raises UserError where there is no terminal, and
    when the guest ended before its shell did.
    """
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UserError("make shell needs a terminal; what runs by itself is make selftest, with TEST= one test")
    columns, lines = os.get_terminal_size()
    terminal = {"TERM": os.environ.get("TERM", "dumb"), "COLUMNS": str(columns), "LINES": str(lines)}
    share = _prepare(kernel, out, {**inputs, "guest": GUEST_SCRIPTS}, {**env, **terminal})
    kernel_args = ("loglevel=4",)  # dmesg has the rest
    if kernel.arch == USER_MODE:
        argv = _user_mode(kernel, SHELL, out, MEMORY, (*TERMINAL, *kernel_args))
    else:
        argv = _virtme_run(kernel, share, accel=accel, cpus=2, memory=MEMORY)
        argv += ["--qemu-opts", *_append(SHELL, kernel_args), *(() if accel == "kvm" else ("-cpu", CPU))]
    subprocess.run(argv, env={**os.environ, "TMPDIR": _for_memory(out, MEMORY)}, check=False)
    if _status(share / "status") is None:
        raise UserError("the guest ended before its shell did")


def _virtme_run(kernel: Kernel, share: Path, *, accel: str, cpus: int, memory: str) -> list[str | Path]:
    argv: list[str | Path] = [host.python_env() / "bin" / "virtme-run", "--kimg", kernel.image, "--mods", "none"]
    argv += ["--root", "/", "--force-9p", "--disable-microvm", "--rwdir", f"{SHARE}={share}"]
    argv += ["--memory", memory, "--cpus", str(cpus)]
    return argv if accel == "kvm" else [*argv, "--disable-kvm"]


def _user_mode(kernel: Kernel, script: str, out: Path, memory: str, arguments: Sequence[str]) -> list[str | Path]:
    """The command that boots User-Mode Linux: processes of the host, at its speed, with one CPU."""
    return [
        kernel.image,
        f"mem={memory}",
        *("root=none", "rootfstype=hostfs", "rootflags=/", "ro"),
        "seccomp=auto",  # what is faster than ptrace, where kernel and host know it
        *(f"uml_dir={out}/uml/", "umid=guest"),  # so the pid file is uml/guest/pid
        f'init="{INIT}"',
        # What the kernel does not know and has a "=" becomes part of init's environment.
        f'guest_share="{out}/share"',
        f"guest_script={script}",
        *arguments,
    ]


_guests_on = Counter[int]()  # the guests of this process, by the host's CPU
_choosing_cpu = threading.Lock()


@contextmanager
def _on_one_cpu() -> Iterator[tuple[str, ...]]:
    """What keeps a command on one CPU of the host: the one with the fewest guests.

    User-Mode Linux and what runs in it take turns. On two CPUs each turn would have to wake an idle one, which
    takes a third of the time where the host is a virtual machine itself.
    """
    with _choosing_cpu:
        cpu = min(os.sched_getaffinity(0), key=_guests_on.__getitem__)
        _guests_on[cpu] += 1
    try:
        yield ("taskset", "--cpu-list", str(cpu))
    finally:
        with _choosing_cpu:
            _guests_on[cpu] -= 1


def _for_memory(out: Path, memory: str) -> str:
    """Where User-Mode Linux keeps the file that is its memory: where nothing writes it to a disk, if it has room."""
    size = int(memory[:-1]) << {"M": 20, "G": 30}[memory[-1]]
    usable = SHARED_MEMORY.is_dir() and not os.statvfs(SHARED_MEMORY).f_flag & os.ST_NOEXEC
    roomy = usable and shutil.disk_usage(SHARED_MEMORY).free >= 2 * size
    return str(SHARED_MEMORY if roomy else out / "tmp")


def _append(script: str, kernel_args: Sequence[str]) -> list[str]:
    """QEMU's option for the kernel's command line, in place of virtme-run's, which ends with its own first program."""
    started = (f'init="{INIT}"', f"guest_share={SHARE_TAG}", f"guest_script={script}")
    return ["-append", " ".join((*EMULATED_ARGS, *kernel_args, *started))]


def _prepare(kernel: Kernel, out: Path, inputs: Mapping[str, Path], env: Mapping[str, str]) -> Path:
    """Fill the directory shared with the guest, private to the user, and return it."""
    shutil.rmtree(out, ignore_errors=True)
    share = out / "share"
    for directory in (out / "tmp", out / "uml", share / "input" / "modules", share / "results"):
        directory.mkdir(parents=True)
    out.chmod(0o700)
    for module in sorted(kernel.modules.glob("*.ko")):
        shutil.copy(module, share / "input" / "modules")
    for name, source in inputs.items():
        target = share / "input" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    lines = [f"export {key}={shlex.quote(value)}\n" for key, value in env.items()]
    (share / "input" / "environment").write_text("".join(lines))
    return share


def _status(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@dataclass
class _Watch:
    """Follow a guest while it runs: pass on its lines, end it soon after a warning."""

    console: Path
    output: Path
    pidfile: Path
    expected: Sequence[str]
    grace: float
    on_line: Callable[[str], None] | None
    stopped: str = ""
    _seen: int = 0
    _scanned: int = 0
    _warned_at: float | None = None

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(POLL):
            self._pass_on(whole_lines_only=True)
            self._stop_after_warning()
        self._pass_on(whole_lines_only=False)

    def _pass_on(self, whole_lines_only: bool) -> None:
        if self.on_line is None or not self.output.exists():
            return
        with self.output.open("rb") as source:
            source.seek(self._seen)
            fresh = source.read()
        if whole_lines_only:
            fresh = fresh[: fresh.rfind(b"\n") + 1]
        self._seen += len(fresh)
        for line in fresh.decode(errors="replace").splitlines():
            self.on_line(line)

    def _stop_after_warning(self) -> None:
        now = time.monotonic()
        if self._warned_at is None:
            size = self.console.stat().st_size if self.console.exists() else 0
            if size != self._scanned and find_warnings(self.console.read_text(errors="replace"), self.expected):
                self._warned_at = now
            self._scanned = size
        elif now > self._warned_at + self.grace and not self.stopped:
            self.stopped = f"the kernel complained; the guest was stopped {self.grace:.0f} s later"
            with suppress(OSError, ValueError):  # gone by itself
                # Not SIGTERM: on it User-Mode Linux cleans up wherever it is, and complains of that.
                os.killpg(os.getpgid(int(self.pidfile.read_text())), signal.SIGKILL)
