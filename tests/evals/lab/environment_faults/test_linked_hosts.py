"""Hosts made of namespaces pass the bytes, lose the packets and use the interface that they were asked for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from evals.lab.environment_faults.network import LinkedHosts
from evals.lab.environment_faults.placement import EnvironmentFaultError, Placement, run
from tests.evals.lab.environment_faults.burning import python, skip_where_missing, started

SEND_S = 0.8
RECEIVER = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 5555))
print("up", flush=True)
connection, _ = server.accept()
start, size = time.monotonic(), 0
while got := connection.recv(1 << 20): size += len(got)
print(size * 8e-6 / (time.monotonic() - start))
"""
SENDER = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 5555))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end: connection.sendall(bytes(65536))
"""


@dataclass(frozen=True)
class Sent:
    """What one sender pushed to one receiver."""

    mbit_per_s: float
    retransmitted_share: float  # of the sender's segments


def counters(name: str) -> dict[str, int]:
    """The TCP counters of a namespace, as in /proc/net/snmp: OutSegs, RetransSegs and so on."""
    lines = run("ip", "netns", "exec", name, "cat", "/proc/net/snmp").splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("Tcp:"))
    return dict(zip(names, map(int, values), strict=True))


def push(receiver: Placement, sender: Placement) -> Sent:
    address = receiver.environment["MASTER_ADDR"]
    listening = started(receiver, sys.executable, "-c", RECEIVER, address)
    assert listening.stdout is not None
    assert listening.stdout.readline() == "up\n"
    python(sender, SENDER, address, str(SEND_S))
    counted = counters(sender.prefix[3])
    said, _ = listening.communicate(timeout=30)
    return Sent(float(said), counted["RetransSegs"] / counted["OutSegs"])


@pytest.mark.parametrize("rate_mbit", [20.0, 200.0])
def test_a_link_passes_its_rate_and_no_more(tmp_path: Path, rate_mbit: float) -> None:
    hosts = LinkedHosts(rate_mbit)
    skip_where_missing(hosts)
    with hosts.around(2, tmp_path) as (first, second):
        sent = push(first, second)
    assert 0.6 * rate_mbit < sent.mbit_per_s < 1.1 * rate_mbit
    assert sent.retransmitted_share < 0.005


def test_lost_packets_are_retransmitted_in_the_asked_share(tmp_path: Path) -> None:
    hosts = LinkedHosts(200, loss_pct=3)
    skip_where_missing(hosts)
    with hosts.around(2, tmp_path) as (first, second):
        sent = push(first, second)
    assert 0.01 < sent.retransmitted_share < 0.1


def test_the_slow_network_is_taken_on_request(tmp_path: Path) -> None:
    hosts = LinkedHosts(500, slow_rate_mbit=20, use="slow")
    skip_where_missing(hosts)
    with hosts.around(2, tmp_path) as (first, second):
        assert first.environment["GLOO_SOCKET_IFNAME"] == second.environment["GLOO_SOCKET_IFNAME"] == "eth1"
        assert python(second, "import os; print(sorted(os.listdir('/sys/class/net')))") == "['eth0', 'eth1', 'lo']\n"
        assert push(first, second).mbit_per_s < 22


def test_another_jobs_bytes_leave_the_training_less(tmp_path: Path) -> None:
    hosts = LinkedHosts(40, other_traffic_mbit=40)
    skip_where_missing(hosts)
    with hosts.around(2, tmp_path) as (first, second):
        assert push(first, second).mbit_per_s < 32


def test_one_host_of_three_has_a_worse_cable_than_the_others(tmp_path: Path) -> None:
    hosts = LinkedHosts(100, slow_host=2, slow_host_rate_mbit=10)
    skip_where_missing(hosts)
    with hosts.around(3, tmp_path) as (first, second, third):
        assert push(first, second).mbit_per_s > 40
        assert push(first, third).mbit_per_s < 12


def test_every_host_has_a_name_of_its_own_and_an_address(tmp_path: Path) -> None:
    hosts = LinkedHosts(100)
    skip_where_missing(hosts)
    with hosts.around(2, tmp_path) as placements:
        names = [python(each, "import socket; print(socket.gethostname())") for each in placements]
        assert {each.environment["MASTER_ADDR"] for each in placements} == {"10.77.0.1"}
    assert names == ["node-0\n", "node-1\n"]


def test_the_slow_network_without_a_rate_is_refused(tmp_path: Path) -> None:
    hosts = LinkedHosts(100, use="slow")
    with pytest.raises(EnvironmentFaultError, match="slow_rate_mbit"), hosts.around(2, tmp_path):
        pass


def test_without_the_programs_the_links_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert LinkedHosts(100).missing() == "ip and tc not installed"


def test_without_the_right_the_links_say_so_in_one_clause() -> None:
    program = (
        "import os; from evals.lab.environment_faults.network import LinkedHosts; "
        "os.getuid() or os.setuid(65534); print(LinkedHosts(100).missing())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    if "not installed" in said:
        pytest.skip(f"not permitted here: {said.strip()}")
    assert said.startswith("network namespaces with shaped links are not permitted here (")
    assert len(said.splitlines()) == 1
