# SPDX-License-Identifier: Apache-2.0
"""Hosts that Ray places: what is said without Ray, and trials with it, in a network namespace.

Ray may listen on all addresses, so it runs where there are none but those of the trial.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import cluster_sample
import pytest

from denizen import ArgumentError, Cluster, MissingPackageError, cli
from denizen.cluster import RayPlacement


@pytest.mark.parametrize("given", [{"placement": "ray"}, {"hosts": "ray"}], ids=str)
def test_without_ray_the_error_says_how_to_install_it(given, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match="Ray is not installed: pip install ray"):
        Cluster(cluster_sample.PROGRAM, **given)


def test_a_stray_folder_called_ray_is_no_ray(monkeypatch, tmp_path):
    (tmp_path / "ray").mkdir()
    for name in [n for n in sys.modules if n == "ray" or n.startswith("ray.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # no other ray is found
    with pytest.raises(MissingPackageError, match="Ray is not installed: pip install ray"):
        Cluster(cluster_sample.PROGRAM, hosts="ray")
    sys.modules.pop("ray", None)  # the folder


def test_the_command_says_it_too(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert cli.main(["cluster", "up", "--ray", "--hosts", "2"]) != 0
    assert "Ray is not installed: pip install ray" in capsys.readouterr().err


def test_placements_that_are_none_are_refused():
    with pytest.raises(ArgumentError, match='strategy = "WIDE"; use SPREAD, PACK'):
        RayPlacement("WIDE")
    with pytest.raises(ArgumentError, match="give a list of node IDs"):
        RayPlacement(nodes="abc")
    with pytest.raises(ArgumentError, match="Ray places what takes something"):
        RayPlacement(resources={"CPU": 0})
    with pytest.raises(ArgumentError, match="without ray://"):
        RayPlacement(address="ray://head:10001")
    with pytest.raises(ArgumentError, match='placement = "slurm"; use "ray"'):
        Cluster(cluster_sample.PROGRAM, placement="slurm")
    with pytest.raises(ArgumentError, match="2 nodes for 3 hosts"):
        Cluster(cluster_sample.PROGRAM, 4, placement=RayPlacement(nodes=["a", "b"]))


@pytest.mark.deep
@pytest.mark.parametrize("trials", ["ray_trials.py", "ray_machines.py"])
def test_trials_with_ray(trials):
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed (the group ray)")
    apart = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--net"]
    try:
        subprocess.run([*apart, "ip", "link", "set", "lo", "up"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a network namespace (unshare --user --net) and ip")
    path = str(Path(__file__).with_name(trials))
    done = subprocess.run(
        [*apart, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
