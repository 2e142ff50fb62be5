from __future__ import annotations

from pathlib import Path

from hermes_agent.monitor.system import RdmaWatch, network_sample

DEVICES = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo: 700 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0
  eth0: 100 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0
  eth1:  30 1 0 0 0 0 0 0  400 1 0 0 0 0 0 0
"""
SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm OutSegs RetransSegs InErrs
Tcp: 1 5000 12 0
"""


def test_traffic_of_all_interfaces_is_added_up_and_the_loopbacks_is_apart(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(DEVICES, encoding="utf-8")
    (tmp_path / "net/snmp").write_text(SNMP, encoding="utf-8")
    assert network_sample(str(tmp_path)) == {
        "net_sent_bytes": 2400,
        "net_received_bytes": 130,
        "lo_sent_bytes": 700,
        "tcp_sent_segments": 5000,
        "tcp_retransmitted_segments": 12,
    }


def test_without_the_files_nothing_is_said(tmp_path: Path) -> None:
    assert network_sample(str(tmp_path)) == {}
    assert RdmaWatch(tmp_path).sample() == {}


def test_retransmissions_of_rdma_devices_are_added_up(tmp_path: Path) -> None:
    folder = tmp_path / "mlx5_0/ports/1/hw_counters"
    folder.mkdir(parents=True)
    counters = {"packet_seq_err": 3, "local_ack_timeout_err": 2, "retrans_pkts": 10, "retrans_bytes": 9000, "other": 7}
    for name, value in counters.items():
        (folder / name).write_text(f"{value}\n", encoding="utf-8")
    assert RdmaWatch(tmp_path).sample() == {"rdma_retransmits": 15}
