# SPDX-License-Identifier: Apache-2.0
"""rt.serve_metrics(): scraped over loopback and read with Prometheus's own parser."""

import contextlib
import http.client
import json
import os
import socket
import stat
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
import sample

import denizen
from denizen import announce
from denizen.nvml import Sensors

pytest.importorskip("prometheus_client")
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from denizen import metrics

NOWHERE = "192.0.2.1"  # of no machine (RFC 5737)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where this test's runtimes announce themselves."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "denizen"


def get(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return answer.read().decode()


def scrape(url):
    """(name, labels) -> value, of every sample."""
    families = text_string_to_metric_families(get(url + "/metrics"))
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def labels(**given):
    return tuple(sorted(given.items()))


def test_scrape(rt, device):
    url = rt.serve_metrics()
    assert url.startswith("http://127.0.0.1:")
    counters = rt.spawn("Counter", 10)
    for counter in counters:
        rt.send_many(counter, sample.ADD.zeros(100))
    (hopper,) = rt.spawn("Hopper")
    rt.send(hopper, "Hop", to=hopper, left=5)
    rt.drain()
    found = scrape(url)
    assert found["denizen_handlers_run_total", labels(actor="Counter")] == 1000
    assert found["denizen_handlers_run_total", labels(actor="Slow")] == 0
    assert found["denizen_actors", labels(actor="Counter")] == 10
    assert found["denizen_messages_sent_total", labels(route="worker")] == 5
    assert found["denizen_errors_total", ()] == 0
    by_worker = [v for (name, _), v in found.items() if name == "denizen_messages_handled_total"]
    assert len(by_worker) == rt.description["workers"]
    assert sum(by_worker) == rt.stats()["handled"]
    name = "denizen_queue_slots"
    for queue in ("host_ring", "inbox", "near", "outbox"):
        assert found[name, labels(node="0", worker="0", queue=queue)] == 0
    about = labels(program=rt.program.name, device=rt.description["device"])
    assert found["denizen_program", about] == 1


def test_durations_as_a_histogram(rt):
    url = rt.serve_metrics()
    (counter,) = rt.spawn("Counter")
    rt.send_many(counter, sample.ADD.zeros(1000))
    rt.drain()
    found = scrape(url)
    name = "denizen_handler_duration_seconds"
    edges = sorted(
        (float(dict(key)["le"]), value)
        for (metric, key), value in found.items()
        if metric == name + "_bucket" and dict(key)["actor"] == "Counter"
    )
    values = [value for _, value in edges]
    assert values == sorted(values)
    assert edges[-1] == (float("inf"), 1000)
    assert edges[0][0] == pytest.approx(16e-9)
    assert edges[-2][0] == pytest.approx(2**34 * 1e-9)
    assert found[name + "_count", labels(actor="Counter")] == 1000
    total = found[name + "_sum", labels(actor="Counter")]
    assert 0 <= total < 60
    slow = found["denizen_slowest_handler_seconds", labels(actor="Counter", message="Add")]
    assert slow <= total * 1.001


def test_telemetry_json_and_other_paths(rt):
    url = rt.serve_metrics()
    given = json.loads(get(url + "/telemetry.json"))
    assert given["program"] == rt.program.name
    assert given["telemetry"]["mode"] == "running"
    assert given["telemetry"]["observed"] is True
    with pytest.raises(urllib.error.HTTPError) as error:
        get(url + "/else")
    assert error.value.code == 404


def test_observing_can_be_switched_off(rt):
    rt.serve_metrics()
    rt.observe(False)
    assert not rt.telemetry().observed


def test_close_ends_it(device, folder):
    rt = denizen.Runtime(sample.program(), device)
    url = rt.serve_metrics()
    (path,) = folder.iterdir()
    rt.close()
    with pytest.raises(urllib.error.URLError):
        get(url + "/metrics")
    assert not path.exists()


def test_once_and_one_port(rt):
    url = rt.serve_metrics()
    with pytest.raises(denizen.ArgumentError, match=url):
        rt.serve_metrics()
    with denizen.Runtime(sample.program(), "cpu:1") as other:
        port = int(url.rpartition(":")[2])
        with pytest.raises(denizen.DenizenError, match=f"port {port}.*port 0 takes any free one"):
            other.serve_metrics(port)
        with pytest.raises(denizen.ArgumentError, match=r"port = 70000; use .* from 0 to 65535"):
            other.serve_metrics(70_000)
        assert other.serve_metrics() != url


def test_it_is_not_to_be_reached_from_elsewhere(rt):
    port = int(rt.serve_metrics().rpartition(":")[2])
    # 127.0.0.2 is this machine too, but not the address that it listens at.
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), timeout=5):
        pass


def test_announced_for_this_user_alone(rt, folder):
    url = rt.serve_metrics()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert announce.find() == [announce.Announcement(os.getpid(), rt.program.name, url)]
    (folder / "1-1.json").write_text("half of")
    (folder / "4194399-80.json").write_text(
        '{"pid": 4194399, "program": "dead", "url": "http://127.0.0.1:80"}'  # above pid_max
    )
    assert [a.url for a in announce.find()] == [url]
    assert not (folder / "4194399-80.json").exists()


def test_a_folder_that_others_can_write_to_is_refused(folder):
    folder.mkdir(mode=0o755)
    with pytest.raises(denizen.DenizenError, match="is not a folder of this user with mode 0700"):
        announce.find()
    folder.rmdir()
    folder.symlink_to("/tmp")
    with pytest.raises(denizen.DenizenError, match="is not a folder of this user"):
        announce.announce("p", "http://127.0.0.1:1")


def test_gpu_sensors_are_metrics():
    sensors = {
        0: Sensors("H100", 412.5, 700.0, 45.0, 1980.0, None, 3, None),
        1: Sensors("H100", 80.0, None, None, None, None, None, None),
    }
    found = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for f in metrics._of_gpus(sensors)
        for s in f.samples
    }
    assert found == {
        ("denizen_gpu_power_watts", labels(node="0", gpu="H100")): 412.5,
        ("denizen_gpu_power_watts", labels(node="1", gpu="H100")): 80.0,
        ("denizen_gpu_power_limit_watts", labels(node="0", gpu="H100")): 700.0,
        ("denizen_gpu_temperature_celsius", labels(node="0", gpu="H100")): 45.0,
        ("denizen_gpu_clock_hertz", labels(node="0", gpu="H100", clock="sm")): 1.98e9,
        ("denizen_gpu_ecc_errors_total", labels(node="0", gpu="H100", kind="corrected")): 3,
    }
    assert list(metrics._of_gpus({})) == []


def test_every_node_has_a_gpu_of_its_own(monkeypatch):
    class Gpu:
        def __init__(self, index):
            self.index = index

        def sensors(self):
            return Sensors(f"GPU {self.index}", float(self.index), *[None] * 6)

    rt = SimpleNamespace(gpu=2, description={"device": "GPU 2", "nodes": 3})
    # The one in the middle does not tell.
    monkeypatch.setattr(metrics.Nvml, "open", lambda index: Gpu(index) if index != 3 else None)
    sensors = metrics.Collector(rt).sensors()
    assert {node: s.name for node, s in sensors.items()} == {0: "GPU 2", 2: "GPU 4"}
    rt.gpu = None
    assert metrics.Collector(rt).sensors() == {}


def test_at_another_address(rt):
    url = rt.serve_metrics(address="127.0.0.2")  # this machine too, by another of its addresses
    assert url.startswith("http://127.0.0.2:")
    assert scrape(url)["denizen_errors_total", ()] == 0
    with pytest.raises(urllib.error.URLError):
        get(url.replace("127.0.0.2", "127.0.0.1") + "/metrics")


def test_at_every_address():
    with denizen.Runtime(sample.program(), "cpu:1") as rt:
        url = rt.serve_metrics(address="0.0.0.0")
        assert url.startswith("http://127.0.0.1:")  # an address to go to
        port = url.rpartition(":")[2]
        for host in ("127.0.0.1", "127.0.0.2"):
            assert scrape(f"http://{host}:{port}")["denizen_errors_total", ()] == 0


def test_names_of_other_machines_are_refused(rt):
    url = rt.serve_metrics(hosts=["box.example"])
    port = int(url.rpartition(":")[2])

    def status(host, target="/metrics"):
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(line):
            line.putrequest("GET", target, skip_host=True)
            line.putheader("Host", host)
            line.endheaders()
            return line.getresponse().status

    assert status("example.org") == status(f"127.0.0.1.example.org:{port}") == 403
    assert status(f"localhost:{port}") == status("box.example") == 200


def test_a_bad_target_is_answered_and_not_printed(rt, capfd):
    port = int(rt.serve_metrics().rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(b"GET http://[ HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.0 400 ")
    assert capfd.readouterr() == ("", "")


def test_at_an_address_of_no_machine(rt):
    with pytest.raises(denizen.DenizenError, match=f"cannot serve metrics at {NOWHERE} port 0"):
        rt.serve_metrics(address=NOWHERE)
    assert scrape(rt.serve_metrics())["denizen_errors_total", ()] == 0


def test_a_collector_in_a_registry_of_ones_own(rt):
    registry = CollectorRegistry()
    registry.register(metrics.Collector(rt))
    (counter,) = rt.spawn("Counter")
    rt.send_many(counter, sample.ADD.zeros(10))
    rt.drain()
    of_counter = {"actor": "Counter"}
    assert registry.get_sample_value("denizen_handlers_run_total", of_counter) == 10
    assert registry.get_sample_value("denizen_actors", of_counter) == 1
    # Nobody has asked for durations: serve_metrics() observes, a collector alone does not.
    name = "denizen_handler_duration_seconds_count"
    assert registry.get_sample_value(name, of_counter) == 0
    rt.observe(True)
    rt.send(counter, "Add", n=1)
    rt.drain()
    assert registry.get_sample_value(name, of_counter) == 1


def test_without_prometheus_client_it_says_what_to_install(run_python, tmp_path):
    package = tmp_path / "prometheus_client"
    package.mkdir()
    (package / "__init__.py").write_text("raise ModuleNotFoundError('not here')")
    text = """
import sys
sys.path.insert(0, sys.argv[1])
sys.path.append(sys.argv[2])
import denizen, sample
with denizen.Runtime(sample.program(), "cpu:1") as rt:
    try:
        rt.serve_metrics()
    except denizen.MissingPackageError as error:
        print(error)
"""
    here = os.path.dirname(sample.__file__)
    expected = "prometheus-client is not installed: pip install prometheus-client\n"
    assert run_python(text, str(tmp_path), here) == expected
