"""Reports of one moment in the forms in which tools print them."""

from __future__ import annotations

DCGM_MONITOR = """\
#Entity   GRACT        SMACT        SMOCC        TENSO        DRAMA        POWER
ID                                                                         W
GPU 0     0.985        0.412        0.153        0.089        0.210        312.451
GPU 1     0.250        0.110        0.052        0.018        0.109        189.127
GPU 0     0.990        0.416        0.155        0.091        0.212        313.002
GPU 1     0.270        0.113        0.054        0.020        N/A          190.880
GPU-I 0   0.100        0.113        0.054        0.020        0.100        N/A
"""
DCGM_OLD = """\
# Entity  GPUTL  MCUTL  SMCLK  TMPTR  POWER
      Id
    GPU 0     98     40   1410     61   390.2
    GPU 1     35     12   1410     50   190.1
"""
INSTANCES = """\
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1",Hostname="n1"} 0.93
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",GPU_I_PROFILE="3g.40gb",GPU_I_ID="2",Hostname="n1"} 0.04
DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="n1"} 55
"""
TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV12\tSYS\tSYS\tPXB\t0-31\t0
GPU1\tNV12\t X \tSYS\tSYS\tPXB\t0-31\t0
GPU2\tSYS\tSYS\t X \tNV12\tSYS\t32-63\t1
GPU3\tSYS\tSYS\tNV12\t X \tSYS\t32-63\t1
NIC0\tPXB\tPXB\tSYS\tSYS\t X\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
"""
P2P = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 1290.45  11.25
     1  11.31 1293.01
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 1288.33 {enabled}
     1 {enabled} 1294.10
P2P=Disabled Latency Matrix (us)
   GPU     0      1
     0   2.53  18.40
     1  17.93   2.49

   CPU     0      1
     0   2.78   7.91
     1   7.88   2.70
"""
PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Link type       : IB
---------------------------------------------------------------------------------------
 local address: LID 0x0c QPN 0x0122 PSN 0xb2e1f4 RKey 0x1fff00 VAddr 0x007f2b5c000000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]
 65536      5000             11756.22            11755.01\t\t   0.188080
 1048576    5000             11790.10            11789.55\t\t   0.011789
---------------------------------------------------------------------------------------
"""
LATENCY = """\
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_1
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 2       1000          1.02           5.91         1.06               1.08           0.05
"""
IBSTAT = """\
CA 'mlx5_0'
\tCA type: MT4123
\tNumber of ports: 1
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 100
CA 'mlx5_1'
\tPort 1:
\t\tState: Active
\t\tRate: 200
CA 'mlx5_2'
\tPort 1:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 10
"""
IBSTATUS = """\
Infiniband device 'mlx5_3' port 1 status:
\tbase lid:\t 0x0
\tstate:\t\t 4: ACTIVE
\trate:\t\t 100 Gb/sec (4X EDR)
"""
PERFQUERY = """\
# Port counters: Lid 12 port 1 (CapMask: 0x5A00)
PortSelect:......................1
SymbolErrorCounter:..............132
LinkDownedCounter:...............2
PortXmitDiscards:................57
PortXmitData:....................4294967295
"""
FREE = """\
              total        used        free      shared  buff/cache   available
Mem:           500Gi       480Gi       2.1Gi        62Gi        20Gi       10Gi
Swap:          8.0Gi       6.0Gi       2.0Gi
"""
DF = """\
Filesystem      Size  Used Avail Use% Mounted on
/dev/nvme0n1p2  1.8T  1.8T     0 100% /
tmpfs           252G  240G   12G  96% /dev/shm
10.0.0.5:/data   50T   41T  9.1T  82% /data
"""
TOP = """\
top - 14:22:05 up 12 days,  3:11,  2 users,  load average: 63.12, 60.05, 48.77
Tasks: 812 total,  34 running, 778 sleeping,   0 stopped,   0 zombie
%Cpu(s): 96.2 us,  3.1 sy,  0.0 ni,  0.5 id,  0.1 wa,  0.0 hi,  0.1 si,  0.0 st
MiB Mem : 515842.1 total,   2103.4 free, 401233.0 used, 112505.7 buff/cache

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
  31245 alice     20   0   61.2g  14.1g 812332 R 101.3   2.8 120:11.27 python
"""
FIO = """\
randread: (g=0): rw=randread, bs=(R) 128KiB-128KiB, ioengine=libaio, iodepth=32
fio-3.28
randread: (groupid=0, jobs=1): err= 0: pid=31245: Thu Mar 14 10:15:02 2024
  read: IOPS=1.5k, BW=190MiB/s (200MB/s)(11.2GiB/60021msec)
    slat (usec): min=4, max=812, avg=12.31, stdev= 5.02
    clat (msec): min=1, max=221, avg=20.98, stdev=11.23
"""
LISTING = """\
==============NVSMI LOG==============

Driver Version                            : 535.129.03

GPU 00000000:3B:00.0
    Product Name                          : NVIDIA A100-PCIE-40GB
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : {generation}
            Link Width
                Max                       : 16x
                Current                   : 8x
    Utilization
        Gpu                               : {busy} %
    ECC Errors
        Volatile
            SRAM Uncorrectable            : 0
            DRAM Uncorrectable            : 3
        Aggregate
            DRAM Uncorrectable            : 17
"""
GPUSTAT = """\
node7                  Thu Mar 14 10:15:02 2024  535.129.03
[0] NVIDIA A100-SXM4-80GB | 55'C,  97 %, 312 / 400 W | 70123 / 81920 MB | alice(70000M)
[1] NVIDIA A100-SXM4-80GB | 41'C,   0 % |  1203 / 81920 MB | bob(1100M)
"""
P2P_FAST, PERFTEST_MB = P2P.format(enabled="275.32"), PERFTEST.format(unit="MB/sec")
LISTING_BUSY = LISTING.format(generation=1, busy=97)
EVERY = {
    name: text
    for name, text in list(globals().items())
    if isinstance(text, str) and name.isupper() and name not in ("P2P", "PERFTEST", "LISTING")
}
