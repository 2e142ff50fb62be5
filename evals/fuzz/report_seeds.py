"""Small reports of links, machines and devices of one moment, and a tracker's export of system metrics."""

from __future__ import annotations


def reports() -> list[bytes]:
    """What topology, tests of links and storage, ports, memory, file systems and DCGM's monitor print."""
    links = (
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV12\tPXB\t0-31\nGPU1\tNV12\t X \tSYS\t0-31\n\n"
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n"
        "     0 1288.33 275.32\n     1 274.90 1294.10\n"
        "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n"
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        " 65536      5000             11756.22            11755.01\t\t   0.188080\n"
        "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 100\n"
        "# Port counters: Lid 12 port 1 (CapMask: 0x5A00)\nLinkDownedCounter:...............2\n"
    )
    machine = (
        "              total        used        free      shared  buff/cache   available\n"
        "Mem:           500Gi       480Gi       2.1Gi        62Gi        20Gi       10Gi\n"
        "Filesystem      Size  Used Avail Use% Mounted on\ntmpfs           252G  240G   12G  96% /dev/shm\n"
        "%Cpu(s): 96.2 us,  3.1 sy,  0.0 ni,  0.5 id,  0.1 wa,  0.0 hi,  0.1 si,  0.0 st\n"
        "randread: (groupid=0, jobs=1): err= 0: pid=31245: Thu Mar 14 10:15:02 2024\n"
        "  read: IOPS=1.5k, BW=190MiB/s (200MB/s)(11.2GiB/60021msec)\n"
        "    clat (msec): min=1, max=221, avg=20.98, stdev=11.23\n"
    )
    devices = (
        "#Entity   GRACT        SMACT        DRAMA\nID\nGPU 0     0.985        0.412        0.210\n"
        "GPU 0     0.990        0.416        N/A\n"
        "==============NVSMI LOG==============\nGPU 00000000:3B:00.0\n            PCIe Generation\n"
        "                Max                       : 4\n                Current                   : 1\n"
    )
    return [links.encode(), machine.encode(), devices.encode()]


def tracker_export() -> bytes:
    """Two readings of W&B's system metrics as its API exports them."""
    return (
        b'"","_timestamp","system.gpu.0.gpu","system.gpu.0.powerWatts","system.gpu.1.gpu"\n'
        b'"0",1764000000.5,97,250.5,3\n"1",1764000015.5,,251,4\n'
    )
