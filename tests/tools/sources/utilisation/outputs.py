"""Small outputs of the tools, as they print them."""

from __future__ import annotations

QUERY = """\
timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], clocks.sm [MHz], \
clocks_throttle_reasons.active, pstate
2025/04/24 15:58:57.879, 0, NVIDIA A100-SXM4-80GB, 97 %, 1024 MiB, 250.50 W, 1410 MHz, 0x0000000000000000, P0
2025/04/24 15:58:57.881, 1, NVIDIA A100-SXM4-80GB, 98 %, 2048 MiB, [N/A], 1200 MHz, 0x0000000000000024, P0
2025/04/24 15:58:58.879, 0, NVIDIA A100-SXM4-80GB, 95 %, 1024 MiB, 251.00 W, 1410 MHz, 0x0000000000000000, P0
"""
LOCALISED = """\
timestamp; index; utilization.gpu [%]; power.draw [W]; temperature.gpu
2025/04/24 15:58:57,879; 0; 97 %; 250,50 W; 41
"""
COMMAS = """\
timestamp, index, utilization.gpu [%], power.draw [W]
2025/04/24 15:58:57.879, 0, 97 %, 250,50 W
"""
OWN_NAMES = """\
timestamp,gpu_index,temperature_C,utilization_gpu_percent,power_W
2025-09-24T03:48:33.493Z,0, 38, 100, 387.26
2025-09-24T03:48:33.493Z,1, 60, 100, 422.55
2025-09-24T03:48:33.788Z,0, 38, 100, 387.36
2025-09-24T03:48:33.788Z,1, 60, 100, 422.73
"""
WITHOUT_INDEX = "timestamp, utilization.gpu [%]\n" + "".join(
    f"2025/04/24 15:58:{second:02d}.{100 + device:03d}, {10 * device} %\n" for second in range(6) for device in range(4)
)
NO_HEADER = "97 %, 1024 MiB, 250.5 W\n98 %, 1024 MiB, 251.5 W\n99 %, 1024 MiB, 251.5 W\n"

TABLE = """\
Thu Apr 24 15:58:57 2025
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |
| N/A   34C    P0   270W / 400W |  71234MiB / 81920MiB |     97%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-SXM...  On   | 00000000:0F:00.0 Off |                    0 |
| N/A   31C    P0    62W / 400W |      3MiB / 81920MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0   N/A  N/A     12345      C   python                          71230MiB |
+-----------------------------------------------------------------------------+
"""
OLD_TABLE = """\
| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |
|   0  Tesla V100-SXM2...  On   | 00000000:06:00.0 Off |                    0 |
| 38%   65C    P2   180W / 250W |  10441MiB / 16130MiB |     35%      Default |
|    0     40961      C   python3                                     10431MiB |
"""
NEWEST_TABLE = """\
| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |
|   0  NVIDIA GeForce RTX 4060 ...    Off |   00000000:01:00.0 Off |                  N/A |
| N/A   43C    P8              N/A /  115W |      54MiB /   8188MiB |     N/A      Default |
"""
DETAILS = """\
==============NVSMI LOG==============

Timestamp                                 : Thu Apr 24 15:58:57 2025
Driver Version                            : 535.104.05
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
        Used                              : 70000 MiB
    Utilization
        Gpu                               : 99 %
        Memory                            : 41 %
    Temperature
        GPU Current Temp                  : 71 C
        GPU Shutdown Temp                 : 92 C
        Memory Current Temp               : 88 C
    GPU Power Readings
        Power Draw                        : 699.80 W
        Current Power Limit               : 700.00 W
    Clocks
        Graphics                          : 1590 MHz
        SM                                : 1590 MHz
        Memory                            : 2619 MHz
    Max Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
        Memory                            : 2619 MHz
"""
XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Thu Apr 24 15:58:57 2025</timestamp>
	<driver_version>535.104.05</driver_version>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:07:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<mig_devices>
			<mig_device>
				<fb_memory_usage>
					<total>9984 MiB</total>
				</fb_memory_usage>
			</mig_device>
		</mig_devices>
		<performance_state>P0</performance_state>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
			<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
		</clocks_event_reasons>
		<fb_memory_usage>
			<total>81559 MiB</total>
			<used>70000 MiB</used>
		</fb_memory_usage>
		<utilization>
			<gpu_util>99 %</gpu_util>
			<memory_util>41 %</memory_util>
		</utilization>
		<temperature>
			<gpu_temp>71 C</gpu_temp>
			<memory_temp>N/A</memory_temp>
		</temperature>
		<gpu_power_readings>
			<instant_power_draw>699.80 W</instant_power_draw>
			<current_power_limit>700.00 W</current_power_limit>
		</gpu_power_readings>
		<clocks>
			<sm_clock>1590 MHz</sm_clock>
		</clocks>
		<max_clocks>
			<sm_clock>1980 MHz</sm_clock>
		</max_clocks>
		<processes>
		</processes>
	</gpu>
	<gpu id="00000000:0A:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<utilization>
			<gpu_util>98 %</gpu_util>
		</utilization>
	</gpu>
</nvidia_smi_log>
"""
DMON = """\
# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk pviol tviol
# Idx     W     C     C     %     %     %     %   MHz   MHz     %  bool
    0    70    48     -     5     1     0     0  7000  1350     0     0
    1   274    55     -    75    46     0     0  7000  1740    12     0
# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk pviol tviol
# Idx     W     C     C     %     %     %     %   MHz   MHz     %  bool
    0   281    57     -    85    54     0     0  7000  1740     0     1
    1   281    57     -    85    54     0     0  7000  1740     0     0
"""
DMON_TIMED = """\
#Date       Time        gpu   pwr gtemp    sm
#YYYYMMDD   HH:MM:SS    Idx     W     C     %
 20250424   15:58:57      0   120    45    18
 20250424   15:58:58      0   121    45    19
"""
PMON = """\
# gpu        pid  type    sm   mem   enc   dec   command
# Idx          #   C/G     %     %     %     %   name
    0      12345     C    85    42     0     0   python
    0      23456     C    10     2     0     0   python
    1          -     -     -     -     -     -   -
"""
ROCM = """\
========================ROCm System Management Interface========================
================================================================================
GPU  Temp   AvgPwr  SCLK     MCLK     Fan     Perf  PwrCap  VRAM%  GPU%
0    30.0c  120.0W  925Mhz   1000Mhz  0%      auto  300.0W  50%    99%
1    31.0c  38.0W   500Mhz   1000Mhz  0%      auto  300.0W   0%    0%
================================================================================
=============================End of ROCm SMI Log ===============================
"""
ROCM_OLD = """\
====================    ROCm System Management Interface    ====================
 GPU  Temp    AvgPwr   SCLK     MCLK     Fan      Perf    SCLK OD    MCLK OD
  0   35c     73.68W   1411Mhz  300Mhz   0.0%     auto      0%         0%
"""
ROCM_NEW = """\
============================================ ROCm System Management Interface ====================================
====================================================== Concise Info ==============================================
Device  Node  IDs              Temp        Power     Partitions       SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
==================================================================================================================
0       1     0x74a1,   28851  51.0°C      690.0W    NPS1, SPX, 0     1420Mhz  1300Mhz  0%   auto  750.0W  71%    100%
==================================================================================================================
"""
ROCM_NAMED = """\
GPU[0]\t\t: Temperature (Sensor junction) (C): 51.0
GPU[0]\t\t: GPU use (%): 25
GPU[1]\t\t: GPU use (%): 75
GPU[0]\t\t: sclk clock level: 1: (1420Mhz)
"""
NPU = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1.b030            Version: 24.1.rc1.b030                                        |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 101.8       43                0    / 0             |
| 0                         | 0000:C1:00.0  | 95          0    / 0          60318/ 65536         |
+===========================+===============+====================================================+
| 1     910B3               | OK            | 92.0        39                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3314 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)               |
| 0       0                 | 1712733       | python             | 48954                            |
"""
SAR = """\
Linux 5.10.103 (node7) 	2026-11-23 	_x86_64_	(4 CPU)

23:59:59        CPU     %user     %nice   %system   %iowait    %steal     %idle
00:00:04        all      0,25      0,00      1,31     30,00      4,00     64,44
00:00:04          0      0,75      0,00      0,75      0,00      0,00     98,50

00:00:04        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
00:00:09         eth0    100,00    200,00      1,00      2,00      0,00      0,00      0,00      0,10

00:00:04     atmptf/s  estres/s retrans/s isegerr/s   orsts/s
00:00:09         0,00      0,00     12,50      0,00      0,00

Average:        CPU     %user     %nice   %system   %iowait    %steal     %idle
Average:        all      0,30      0,00      1,10      0,00      0,00     98,60
"""
PIDSTAT = """\
Linux 5.4.0-62-generic (ubuntu) \t02/04/21 \t_x86_64_\t(2 CPU)

03:48:10 PM   UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
03:48:11 PM     0       491    0.00    0.99    0.00    7.00    0.99     0  systemd journal
03:48:12 PM  1000      4381   11.98    0.00    0.00   87.23   11.98     1  python
"""
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 123456  12345 654321    0    0    10    20  100  200  5  1 94  0  0
 9  2      0 123456  12345 654321    0    4    10    20  100  900 60  5 20 10  5
 8  2      0 123456  12345 654321    0    0    10    20  100  800 60  5 25 10  0
"""
IOSTAT = """\
Linux 5.10.103 (node7) 	2026-11-23 	_x86_64_	(4 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           1.00    0.00    1.00    1.00    0.00   97.00

Device            r/s     rkB/s   r_await     w/s     wkB/s   w_await  aqu-sz  %util
nvme0n1          1.00     10.00      0.50    1.00     10.00      0.50    0.00   0.10

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          10.00    0.00    5.00   40.00    0.00   45.00

Device            r/s     rkB/s   r_await     w/s     wkB/s   w_await  aqu-sz  %util
nvme0n1        900.00 102400.00     25.50    1.00     10.00      0.50   12.00  99.50
"""
NSTAT = """\
#kernel
IpInReceives                    1000               0.0
TcpOutSegs                      20000              0.0
TcpRetransSegs                  300                0.0
"""
PRESSURE = """\
==> /proc/pressure/cpu <==
some avg10=12.50 avg60=10.00 avg300=9.00 total=123456
full avg10=0.00 avg60=0.00 avg300=0.00 total=0

==> /proc/pressure/io <==
some avg10=40.25 avg60=10.00 avg300=9.00 total=123456
full avg10=35.00 avg60=10.00 avg300=9.00 total=123456
"""
PRESSURE_GREP = "/proc/pressure/io:full avg10=35.00 avg60=10.00 avg300=9.00 total=123456\n"
PRESSURE_BARE = "some avg10=12.50 avg60=10.00 avg300=9.00 total=123456\n"
RDMA = """\
link mlx5_0/1 rx_write_requests 10 out_of_sequence 7 packet_seq_err 3 local_ack_timeout_err 2 np_cnp_sent 5
link mlx5_1/1 rx_write_requests 10 out_of_sequence 0 packet_seq_err 0 local_ack_timeout_err 0 np_cnp_sent 0
link mlx5_0/1 rx_write_requests 90 out_of_sequence 107 packet_seq_err 13 local_ack_timeout_err 4 np_cnp_sent 9
link mlx5_1/1 rx_write_requests 90 out_of_sequence 0 packet_seq_err 0 local_ack_timeout_err 0 np_cnp_sent 0
"""
ETHTOOL = """\
NIC statistics:
     rx_packets: 123456
     rx_prio3_pause: 100
     tx_prio3_pause: 7
     rx_discards_phy: 3
     rx_crc_errors_phy: 1
NIC statistics:
     rx_packets: 223456
     rx_prio3_pause: 5100
     tx_prio3_pause: 7
     rx_discards_phy: 3
     rx_crc_errors_phy: 1
"""
EVERY = {
    name: text
    for name, text in list(globals().items())
    if isinstance(text, str) and name.isupper() and name not in ("NO_HEADER", "PRESSURE_BARE")
}
