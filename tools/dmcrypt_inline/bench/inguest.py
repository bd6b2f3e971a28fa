"""The measuring program: python3 inguest.py ORDER RESULTS, as root in a guest of these tools, nowhere else.

ORDER is a JSON file with the parts of a plan (see plans.py). The program loads each dm-crypt module in turn, maps the
device, runs fio on the mapping and writes one line of samples.jsonl for each group of fio's jobs, fio's own document
below fio/, and in skipped.json what this kernel cannot do. It is copied into the guest alone: it imports nothing but
the standard library.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BRD, NVME, VIRTIO = "brd", "nvme", "virtio-blk"  # devices; null_blk with its settings is another
NULL = "null"  # the cipher that encrypts nothing
RAW = "raw"  # variant and mode of the device without a mapping
MODES: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "same_cpu": ("same_cpu_crypt",),
    "submit_from_crypt_cpus": ("submit_from_crypt_cpus",),
    "no_read": ("no_read_workqueue",),
    "no_write": ("no_write_workqueue",),
    "both": ("no_read_workqueue", "no_write_workqueue"),
}
# The emulated disks have this serial number. Of each: its name, and where sysfs shows the number.
SERIAL = "dmcrypt-bench"
DISKS = {NVME: ("nvme0n1", "device/serial"), VIRTIO: ("vda", "serial")}
SIZE = 64 << 20  # bytes of each device
KEY = "00112233445566778899aabbccddeeff" * 2 + "ffeeddccbbaa99887766554433221100" * 2  # protects nothing
LUKS2_OFFSET = (16 << 20) >> 9  # sectors before the data of a LUKS2 volume
NAME = "measured"  # of the mapping
LARGEST = 2048  # sectors of null_blk's largest request, on kernels where that can be set
USER_HZ = 100  # ticks a second in /proc/stat; part of the x86 ABI


class MeasuringError(Exception):
    """The measurement cannot go on."""


class UnsupportedError(Exception):
    """This kernel cannot do one part; the others can be measured."""


def call(*argv: str) -> str:
    """Run a program and return its output. Raises MeasuringError when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasuringError(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def crypt_table(part: Mapping[str, Any], mode: str, node: str, sectors: int) -> str:
    """The mapping's table. With a cipher it is that of a LUKS2 volume, whose header comes first."""
    options = [*MODES[mode]]
    options += [f"sector_size:{part['sector_size']}"] if part["sector_size"] != 512 else []
    if part["cipher"] == NULL:
        cipher, offset = "capi:ecb(cipher_null) -", 0
    else:
        cipher, offset = f"{part['cipher']} {KEY}", LUKS2_OFFSET
    optional = " ".join(["", str(len(options)), *options]) if options else ""
    return f"0 {sectors - offset} crypt {cipher} 0 {node} {offset}{optional}"


def check_table(shown: str, wanted: str) -> None:
    """Raise MeasuringError unless the table that dmsetup shows has exactly the optional arguments of the wanted one."""
    found, asked = (sorted(each.split()[8:]) for each in (shown, wanted))
    if found != asked:
        raise MeasuringError(f"the mapping has the options {found}, expected {asked}")


def fio_samples(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The samples in fio's JSON document, one for each group of jobs; `latency_us` maps percentiles to microseconds.

    Raises ValueError when a job failed or moved no data.
    """
    for job in document["jobs"]:
        mixed = job["mixed"]
        if job["error"] or not mixed["io_bytes"] or not mixed["runtime"]:
            raise ValueError(f"fio: {job['jobname']} failed (error {job['error']}) or moved no data")
        latency = mixed["lat_ns"]["percentile"]
        yield {
            "load": job["jobname"],
            "seconds": mixed["runtime"] / 1000,
            "bytes": mixed["io_bytes"],
            "ios": mixed["total_ios"],
            "latency_us": {f"p{float(percent):g}": value / 1000 for percent, value in latency.items()},
            "fio_cpu_s": (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000,
        }


def kernel_cpu(proc: Path = Path("/proc")) -> dict[str, float]:
    """CPU seconds so far: of each kernel thread except ksoftirqd, by number, and of "interrupts", softirqs included.

    The scheduler counts a thread's time in nanoseconds; /proc/stat has what ksoftirqd does as softirqs.
    """
    columns = next(line.split() for line in (proc / "stat").read_text().splitlines() if line.startswith("cpu "))
    found = {"interrupts": (int(columns[6]) + int(columns[7])) / USER_HZ}
    for thread in proc.glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            name, _, rest = (thread / "stat").read_text().partition("(")[2].rpartition(")")
            if rest.split()[1] == "2" and not name.startswith("ksoftirqd/"):
                found[thread.name] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The CPU seconds of kernel threads and of interrupts between two results of kernel_cpu()."""
    used = {name: value - before.get(name, 0.0) for name, value in after.items()}
    interrupts = used.pop("interrupts")
    return {"kernel_threads": sum(used.values()), "interrupts": interrupts}


@contextmanager
def opened(device: str) -> Iterator[str]:
    """The node of the device, which is made for the body and removed after it.

    After an error the device stays: the guest ends anyway, and to fail again would hide the first error.
    """
    kind, *settings = device.split()
    if kind == BRD:
        call("modprobe", "brd", "rd_nr=1", f"rd_size={SIZE >> 10}")
        yield fill_device("/dev/ram0")
        call("rmmod", "brd")
    elif kind == "null_blk":
        place = Path("/sys/kernel/config/nullb") / NAME
        call("modprobe", "null_blk", "nr_devices=0")
        yield fill_device(_null_blk(place, dict(setting.split("=") for setting in settings)))
        (place / "power").write_text("0")
        place.rmdir()
    else:
        name, attribute = DISKS[kind]
        if (Path("/sys/block") / name / attribute).read_text().strip() != SERIAL:
            raise MeasuringError(f"/dev/{name} is not the disk that was made for measuring")
        yield fill_device(f"/dev/{name}")


def fill_device(node: str) -> str:
    """The node again, once every page of the device is written: the first write of a RAM disk's page is slower."""
    call("dd", "if=/dev/zero", f"of={node}", "bs=1M", f"count={SIZE >> 20}", "conv=fsync", "status=none")
    return node


def _null_blk(place: Path, settings: Mapping[str, str]) -> str:
    """Make the device in configfs; return its node."""
    place.mkdir()
    if (place / "max_sectors").exists():
        (place / "max_sectors").write_text(str(LARGEST))
    for name, value in {"size": str(SIZE >> 20), "blocksize": "512", **settings, "power": "1"}.items():
        (place / name).write_text(value)
    # Newer kernels name the node after the directory.
    named = f"/dev/{NAME}"
    return named if Path(named).exists() else f"/dev/nullb{(place / 'index').read_text().strip()}"


def set_queue(node: str, name: str, value: object) -> None:
    """Set an attribute of the device's request queue. Raises UnsupportedError when the kernel does not take it."""
    path = Path("/sys/block") / Path(node).name / "queue" / name
    try:
        path.write_text(str(value))
    except OSError as error:
        raise UnsupportedError(f"{node} does not take {name} {value}: {error.strerror}") from error


@contextmanager
def busy(cpus: int) -> Iterator[None]:
    """Keep this many CPUs busy with work of low priority."""
    spinning = [subprocess.Popen(["nice", "-n", "1", "sh", "-c", "while :; do :; done"]) for _ in range(cpus)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()


class Program:
    """One execution of an order: `modules` maps variants to files, `optional` variants may lack modes."""

    def __init__(self, order: Mapping[str, Any], place: Path, results: Path) -> None:
        self.order, self.place, self.results = order, place, results
        self.loaded = ""
        self.fio_runs = 0
        self.skipped: list[str] = []

    def measure(self) -> None:
        """Run all rounds of all parts."""
        (self.results / "fio").mkdir(parents=True, exist_ok=True)
        for part in self.order["parts"]:
            with opened(part["device"]) as node:
                self._part(part, node)
        (self.results / "skipped.json").write_text(json.dumps(self.skipped))

    def _skip(self, part: Mapping[str, Any], why: UnsupportedError) -> None:
        self.skipped.append(f"{part['workload']}, {part['setting']}: {why}")
        print(f"skipped: {self.skipped[-1]}", flush=True)

    def _part(self, part: Mapping[str, Any], node: str) -> None:
        try:
            for name in ("scheduler", "max_sectors_kb"):
                if part[name]:
                    set_queue(node, name, part[name])
        except UnsupportedError as error:
            self._skip(part, error)
            return
        runs = part["runs"]
        with busy(part["busy"]):
            for number in range(1, self.order["rounds"] + 1):
                print(f"{part['workload']}, {part['setting']}: round {number}", flush=True)
                for cell in runs if number % 2 else runs[::-1]:  # so that a drift hits all alike
                    try:
                        self._cell(part, cell[0], cell[1], node, number)
                    except UnsupportedError as error:
                        self._skip(part, error)
                        runs = [each for each in runs if each != cell]
        self._load("")

    def _load(self, variant: str) -> None:
        """Load the module of this variant in place of the one that is loaded; "" for none."""
        if variant != self.loaded:
            if self.loaded:
                call("rmmod", "dm_crypt")
            if variant:
                call("insmod", str(self.place / self.order["modules"][variant]))
            self.loaded = variant

    def _cell(self, part: Mapping[str, Any], variant: str, mode: str, node: str, number: int) -> None:
        if variant == RAW:
            self._fio(part, variant, mode, node, number)
            return
        self._load(variant)
        wanted = crypt_table(part, mode, node, int(call("blockdev", "--getsz", node)))
        try:
            call("dmsetup", "create", NAME, "--table", wanted)
        except MeasuringError as error:
            if variant in self.order["optional"]:
                raise UnsupportedError(f"{variant} does not know the mode {mode}") from error
            raise
        check_table(call("dmsetup", "table", NAME), wanted)
        self._fio(part, variant, mode, f"/dev/mapper/{NAME}", number)
        call("dmsetup", "remove", "--retry", NAME)

    def _fio(self, part: Mapping[str, Any], variant: str, mode: str, node: str, number: int) -> None:
        """Run fio on the node and write down its samples."""
        self.fio_runs += 1
        output = self.results / "fio" / f"{self.fio_runs:05d}.json"
        os.environ.update(DEVICE=node, RUNTIME=f"{part['seconds'] * 1000:.0f}ms")
        sections = [f"--section={name}" for name in part["sections"]]
        before = kernel_cpu()
        call("fio", "--output-format=json", f"--output={output}", *sections, str(self.place / "fio" / part["jobs"]))
        kernel = spent(before, kernel_cpu())
        text = output.read_text()
        samples = list(fio_samples(json.loads(text[text.index("{") :])))  # fio's warnings come first
        cell = {"workload": part["workload"], "setting": part["setting"], "variant": variant, "mode": mode}
        with (self.results / "samples.jsonl").open("a") as sink:
            for sample in samples:
                # One fio run of several groups tells nothing of the kernel's time in each.
                cpu = {"fio": sample.pop("fio_cpu_s"), **kernel} if len(samples) == 1 else {}
                line = {**cell, "round": number, **sample, "cpu_s": cpu, "fio": f"fio/{output.name}"}
                sink.write(json.dumps(line) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when the order was carried out, 1 with a message when not."""
    if "guest_script=" not in Path("/proc/cmdline").read_text():
        print("this program overwrites disks and runs in guests only: make bench")
        return 1
    order, results = (Path(argument) for argument in arguments)
    try:
        Program(json.loads(order.read_text()), order.parent, results).measure()
    except (MeasuringError, OSError, ValueError, KeyError) as error:
        print(f"FAILED: {type(error).__name__}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
