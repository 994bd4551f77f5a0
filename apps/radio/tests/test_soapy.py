# SPDX-License-Identifier: Apache-2.0
"""Receivers through SoapySDR itself: its null driver, and one that a driver of the tests describes.

Needs Debian's python3-soapysdr and libsoapysdr-dev, and the Python that the first is for.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

SYSTEM = Path("/usr/lib/python3/dist-packages")
DRIVER = Path(__file__).with_name("soapy_receiver.cpp")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """SoapySDR's module alone of all that the system's Python has, and the tests' driver."""
    folder = tmp_path_factory.mktemp("soapy")
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    parts = [SYSTEM / "SoapySDR.py", *SYSTEM.glob(f"_SoapySDR.cpython-{version}*.so")]
    if len(parts) != 2 or not parts[0].exists():
        pytest.skip(f"no python3-soapysdr for Python {sys.version_info.major}.{version[1:]}")
    if not Path("/usr/include/SoapySDR/Device.hpp").exists():
        pytest.skip("no libsoapysdr-dev")
    for part in parts:
        (folder / part.name).symlink_to(part)
    compiler = shutil.which("c++")
    assert compiler is not None
    subprocess.run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-std=c++17",
            DRIVER,
            "-o",
            folder / "libtold.so",
            "-lSoapySDR",
        ],
        check=True,
    )
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "SOAPY_SDR_PLUGIN_PATH": str(folder)}


def run(environment, text):
    program = "import numpy as np\nfrom denizen import DeviceError, iq\n" + text
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


OPEN = 'iq.open("soapy://driver=told?frequency=1090e6&rate=2e6{more}")'


def test_what_the_receiver_is_told_and_gives(environment):
    out = run(
        environment,
        f"""
with {OPEN.format(more="&gain=40&antenna=RX2&bandwidth=3e5&channel=1")} as source:
    pieces = source.pieces()
    print(*np.frombuffer(next(pieces), "c8"))
    many = np.frombuffer(next(pieces), "c8")
    print(len(many), set(many))
    try:
        next(pieces)
    except iq.DataError as error:
        print(error)
    print(source.losses)
""",
    )
    assert out[0] == "(1090+2j) (40+0j) (300+1j)"
    assert out[1].startswith("65536 {")
    assert "(0.5+0.25j)" in out[1]
    assert out[2].endswith("STREAM_ERROR")
    assert out[3] == "1 overflows of the receiver"


def test_gain_is_the_receivers_if_not_said(environment):
    out = run(environment, f"print(*np.frombuffer(next({OPEN.format(more='')}.pieces()), 'c8'))")
    assert out == ["(1090+2j) 1j 0j"]


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("driver=told?frequency=1e8&rate=5e6", "samples at 2,400,000, not 5,000,000 a second"),
        ("driver=null?frequency=1e8&rate=2e6", "samples at 0, not 2,000,000 a second"),
        ("driver=none?frequency=1e8&rate=2e6", "no match"),
    ],
)
def test_what_soapysdr_refuses(environment, address, says):
    out = run(
        environment,
        f"""
try:
    iq.open("soapy://{address}")
except DeviceError as error:
    print(error)
""",
    )
    assert says in "\n".join(out)
