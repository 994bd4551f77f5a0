# SPDX-License-Identifier: Apache-2.0
"""What a record says of the machine, and the sensors of a GPU where there is one."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from denizen import machine
from denizen.lab.sampler import Sampler
from denizen.nvml import Nvml, Reading, Sensors


@pytest.mark.parametrize(
    ("device", "index"),
    [("auto", 0), ("gpu", 0), ("gpu:3", 3), ("cpu", None), ("cpu:4", None)],
)
def test_device_names(device, index):
    assert machine.gpu_index(device) == index


@pytest.mark.parametrize("device", ["", "cpu:0", "gpu:x", "cuda", "gpu:-1", "auto:1"])
def test_other_device_names_are_refused(device):
    with pytest.raises(ValueError, match="is none of auto, cpu"):
        machine.gpu_index(device)


def test_slug():
    assert machine.slug("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
    assert machine.slug("CPU: Intel(R) Xeon(R), 2 cores") == "cpu-intel-xeon-2-cores"
    with pytest.raises(ValueError, match="no file name"):
        machine.slug("...")


def test_cpu_is_described_without_a_gpu():
    here, gpu = machine.describe("cpu")
    assert gpu is None
    assert here.driver is None and here.cuda is None
    assert re.fullmatch(r".+, \d+ cores?", here.cpu)
    assert here.device == f"CPU: {here.cpu}"


def test_time_is_utc_to_the_second():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", machine.utc_now())


def test_commit_says_when_the_tree_has_changes(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip

    monkeypatch.delenv("DENIZEN_COMMIT", raising=False)
    source = tmp_path / "python" / "denizen" / "machine.py"
    source.parent.mkdir(parents=True)
    source.write_text("first")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    monkeypatch.setattr(machine, "__file__", str(source))
    head = machine.commit()
    assert re.fullmatch(r"[0-9a-f]{40}", head)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "benchmarks" / "results" / "new.json").write_text("{}")
    assert machine.commit() == head
    assert machine.why_dirty() is None
    source.write_text("second")
    assert machine.commit() == f"{head}-dirty"
    assert "has changes" in machine.why_dirty()
    monkeypatch.setenv("DENIZEN_COMMIT", "f" * 40)  # cannot hide it
    assert machine.commit() == f"{head}-dirty"


def test_a_copy_without_history_is_dirty_unless_its_files_are_listed(tmp_path, monkeypatch):
    def git(*words):
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout

    source = tmp_path / "python" / "denizen" / "machine.py"
    source.parent.mkdir(parents=True)
    source.write_text("first")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    head = git("rev-parse", "HEAD").decode().strip()
    listing = tmp_path / "files.txt"
    listing.write_bytes(git("ls-tree", "-r", "HEAD"))
    (tmp_path / ".git").rename(tmp_path / "history")
    monkeypatch.setattr(machine, "__file__", str(source))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DENIZEN_COMMIT", head)
    monkeypatch.delenv("DENIZEN_COMMIT_FILES", raising=False)
    assert machine.commit() == f"{head}-dirty"
    assert machine.why_dirty() == "DENIZEN_COMMIT_FILES is not set"
    monkeypatch.setenv("DENIZEN_COMMIT_FILES", str(listing))
    assert (machine.commit(), machine.why_dirty()) == (head, None)
    monkeypatch.chdir(source.parent)
    assert machine.commit() == f"{head}-dirty"
    assert "run it in the folder of the copy" in machine.why_dirty()
    monkeypatch.chdir(tmp_path)
    source.write_text("second")
    assert machine.commit() == f"{head}-dirty"
    assert machine.why_dirty() == f"{source} is not the commit's"
    source.unlink()
    assert machine.commit() == f"{head}-dirty"


def test_commit_of_another_repository_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("DENIZEN_COMMIT", raising=False)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    installed = tmp_path / "venv" / "machine.py"
    installed.parent.mkdir()
    installed.write_text("")
    monkeypatch.setattr(machine, "__file__", str(installed))
    monkeypatch.chdir(tmp_path)
    assert machine.commit() == "unknown"


class FakeGpu:
    """Counts its readings; the first has no clock. Its memory has had errors before."""

    def __init__(self, *, ecc=True):
        self.count = 0
        self.errors = [7, 2] if ecc else [None, None]

    def sensors(self):
        return Sensors("GPU", None, None, None, None, None, *self.errors)

    def read(self, at):
        self.count += 1
        clock = None if self.count == 1 else 1000.0 * self.count
        return Reading(at, 100.0 * self.count, 40.0, clock, None)


def test_sampler_reads_until_it_is_left():
    gpu = FakeGpu()
    with Sampler(gpu, period=0.001) as sampler:
        while gpu.count < 3:  # ends: the thread reads every millisecond
            pass
        gpu.errors = [10, 2]
    count = gpu.count
    summary = sampler.summary()
    assert summary["readings"] == count
    assert summary["power_w_max"] == 100.0 * count
    assert summary["temperature_c"] == 40.0
    assert summary["sm_clock_mhz_min"] == 2000.0
    assert (summary["ecc_corrected"], summary["ecc_uncorrected"]) == (3, 0)
    with Sampler(FakeGpu(ecc=False)) as sampler:
        pass
    assert sampler.summary()["ecc_corrected"] is None


def test_sampler_leaves_out_when_no_kernel_ran():
    """A compiler's seconds are no load: power, clock and heat are those of the load."""
    sampler = Sampler(None)
    compiled = [Reading(0.1 * i, 75.0, 30.0, 345.0, 0.0) for i in range(5)]
    loaded = [Reading(1 + 0.1 * i, 400.0, 50.0, 1980.0, busy) for i, busy in enumerate((3.0, 99.0))]
    sampler.readings = [*compiled, *loaded]
    summary = sampler.summary()
    assert (summary["readings"], summary["readings_idle"]) == (2, 5)
    assert (summary["power_w"], summary["temperature_c"]) == (400.0, 50.0)
    assert (summary["sm_clock_mhz"], summary["sm_clock_mhz_min"]) == (1980.0, 1980.0)
    sampler.readings = compiled
    summary = sampler.summary()
    assert (summary["readings"], summary["power_w"]) == (0, None)
    # A GPU that does not tell whether it runs a kernel: all count, and nothing claims otherwise.
    sampler.readings = [Reading(0.0, 75.0, 30.0, 345.0, None)]
    summary = sampler.summary()
    assert (summary["readings"], summary["readings_idle"], summary["power_w"]) == (1, None, 75.0)


def test_sampler_without_a_gpu_says_nothing():
    with Sampler(None) as sampler:
        pass
    assert sampler.summary() is None


FAKE_DRIVER = r"""
#include <stdio.h>
#include <string.h>
static int gpus[2];
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** gpu) {
    if (i > 1) return 2;
    *gpu = &gpus[i];
    return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** gpu) {
    *gpu = &gpus[1];
    return strcmp(uuid, "GPU-second") != 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** gpu) {
    *gpu = &gpus[strcmp(bus, "0000:41:00.0") == 0];
    return strcmp(bus, "0000:41:00.0") != 0 && strcmp(bus, "0000:01:00.0") != 0;
}
int nvmlDeviceGetName(void* gpu, char* text, unsigned room) {
    snprintf(text, room, "GPU %d", (int)((int*)gpu - gpus));
    return 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned room) {
    snprintf(text, room, "580.159.04");
    return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) { *version = 13000; return 0; }
int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) {
    *milliwatts = gpu == &gpus[1] ? 71500 : 0;
    return gpu != &gpus[1];
}
int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* celsius) {
    *celsius = 33;
    return gpu == 0 || sensor != 0;
}
int nvmlDeviceGetClockInfo(void* gpu, int clock, unsigned* mhz) {
    *mhz = clock == 1 ? 1980 : 2619;
    return gpu == 0 || (clock != 1 && clock != 2);
}
int nvmlDeviceGetUtilizationRates(void* gpu, unsigned* rates) {
    rates[0] = 97;
    rates[1] = 12;
    return gpu != &gpus[1];
}
int nvmlDeviceGetTotalEccErrors(void* gpu, int kind, int counter, unsigned long long* errors) {
    *errors = kind == 0 ? 5000000000ull : 0;
    return gpu != &gpus[1] || kind > 1 || counter != 0;
}
typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    int type, status;
    unsigned long long value;
} Field;
int nvmlDeviceGetFieldValues(void* gpu, int count, Field* fields) {
    fields->status = gpu == &gpus[1] && fields->field == 139 && fields->scope == ~0u ? 0 : 3;
    fields->value = 5000000000ull;
    return count != 1;
}
"""


def libraries(folder, **texts):
    """Compiles each as lib<name>.so.1; without a compiler the test is skipped."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    for name, text in texts.items():
        (folder / "fake.c").write_text(text)
        library = folder / f"lib{name.replace('_', '-')}.so.1"
        command = [compiler, "-shared", "-fPIC", "-o", library, folder / "fake.c"]
        subprocess.run(command, check=True)


def test_driver_library_is_called_with_its_types(tmp_path):
    # A CUDA that does not start: the true one would say where its GPUs are.
    libraries(tmp_path, nvidia_ml=FAKE_DRIVER, cuda="int cuInit(unsigned flags) { return 100; }")
    code = (
        "from denizen.nvml import Nvml\n"
        "gpu = Nvml.open(1)\n"
        "print(gpu.name(), gpu.driver(), gpu.cuda(), gpu.read(2.5), Nvml.open(0).read())\n"
        "print(Nvml.open(7), gpu.sensors(), gpu.nvlink_received(), Nvml.open(0).nvlink_received())"
    )

    def ask(**environment):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip() or done.stderr

    sensors = "Reading(at=2.5, power_w=71.5, temperature_c=33.0, sm_clock_mhz=1980.0, busy=97.0)"
    first = "Reading(at=0.0, power_w=None, temperature_c=33.0, sm_clock_mhz=1980.0, busy=None)"
    state = (
        "Sensors(name='GPU 1', power_w=71.5, power_limit_w=None, temperature_c=33.0, "
        "sm_clock_mhz=1980.0, memory_clock_mhz=2619.0, ecc_corrected=5000000000, "
        "ecc_uncorrected=0)"
    )
    assert ask() == f"GPU 1 580.159.04 13.0 {sensors} {first}\nNone {state} 5120000000000 None"
    # CUDA_VISIBLE_DEVICES renumbers CUDA's devices, not NVML's; 0 is then the second GPU.
    swapped = ask(CUDA_VISIBLE_DEVICES="GPU-second,0")
    assert swapped.startswith("GPU 0 580.159.04 13.0 Reading(at=2.5, power_w=None")
    assert "Reading(at=0.0, power_w=71.5" in swapped


FAKE_CUDA = r"""
#include <stdio.h>
int cuInit(unsigned flags) { return flags != 0; }
int cuDeviceGet(int* device, int index) { *device = index; return index > 1; }
int cuDeviceGetPCIBusId(char* bus, int room, int device) {
    snprintf(bus, room, "0000:%s:00.0", device == 0 ? "41" : "01");
    return 0;
}
"""


def test_a_gpu_is_found_where_cuda_has_it(tmp_path):
    """CUDA's first is the fastest, whatever its place on the bus."""
    libraries(tmp_path, nvidia_ml=FAKE_DRIVER, cuda=FAKE_CUDA)
    done = subprocess.run(
        [sys.executable, "-c", "from denizen.nvml import Nvml\n"
         "print(Nvml.open(0).name(), Nvml.open(1).name())"],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "GPU 1 GPU 0\n"


@pytest.mark.gpu
def test_sensors_of_a_real_gpu():
    gpu = Nvml.open(0)
    if gpu is None:
        pytest.skip("no NVIDIA driver")
    assert gpu.name().startswith("NVIDIA") or gpu.name()
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", gpu.driver())
    assert re.fullmatch(r"\d+\.\d+", gpu.cuda())
    reading = gpu.read()
    assert 1 < reading.power_w < 2000
    assert 0 < reading.temperature_c < 120
    assert Nvml.open(99) is None
