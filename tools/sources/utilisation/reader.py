"""Reads a file of samples, whichever tools wrote into it, and recognises one by the lines of its beginning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import COUNTER_FORMAT
from tools.run.recorded.counters import CounterRecords, CounterSource, joined_counters, repeated_text, samples_table
from tools.sources.decompress import Expansion, Readable, beginning, unpacked_name
from tools.sources.job_log.lines import LineReader
from tools.sources.job_log.prefixes import QUOTED
from tools.sources.job_log.recognise import NEVER
from tools.sources.options import GIB, Limits
from tools.sources.prometheus.text import ExporterText
from tools.sources.utilisation.dcgm_monitor import DcgmMonitor
from tools.sources.utilisation.gpustat import GpuStat
from tools.sources.utilisation.host_reports import HostReports
from tools.sources.utilisation.kernel_counters import KernelCounters
from tools.sources.utilisation.link_reports import LinkReports
from tools.sources.utilisation.readings import MOST_SAMPLES, UNKNOWN, Grammar, Moment, Readings, moment
from tools.sources.utilisation.rocm_smi import RocmSmi
from tools.sources.utilisation.smi_details import SmiDetails
from tools.sources.utilisation.smi_monitor import SmiMonitor
from tools.sources.utilisation.smi_query import SmiQuery
from tools.sources.utilisation.smi_table import NpuTable, SmiTable
from tools.sources.utilisation.smi_xml import SmiXml
from tools.sources.utilisation.sysstat import Sysstat
from tools.sources.utilisation.tracker_csv import TrackerCsv

LIMITS = Limits(expanded_bytes=16 * GIB, expand_s=600.0)
LOOKED_AT_BYTES = 1 << 16
LONGEST_LINE = 16_384  # a table of a tracker has a column for each counter of each device
MOST_OTHER_LINES = 100_000  # in a row without any sample: what follows is another kind of file
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LEAST_SAMPLES = 2


@dataclass
class CounterFile:
    """What was read of one file: its samples, None where there are none, and what could not be used."""

    records: CounterRecords | None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # what was left out or taken for something, though all of it was read


class Samples:
    """Gives every line to the grammar that understands it."""

    def __init__(self) -> None:
        self.query, self.sysstat = SmiQuery(), Sysstat()
        self.grammars: Sequence[Grammar] = (
            *(
                SmiTable(),
                NpuTable(),
                SmiDetails(),
                SmiXml(),
                RocmSmi(),
                SmiMonitor(),
                DcgmMonitor(),
                GpuStat(),
                KernelCounters(),
                LinkReports(),
                HostReports(),
                ExporterText(),
            ),
            *(TrackerCsv(), self.sysstat, self.query),
        )
        self.current: Grammar | None = None
        self.at: Moment = UNKNOWN
        self.other = 0  # lines since the last one that was understood

    def take(self, line: int, text: str) -> None:
        """Take one line."""
        if self.current is not None and self.current.takes(line, text):
            self.other = 0
            return
        stated = moment(text)
        if stated is not None:
            self.at = stated
            return
        found = next((each for each in self.grammars if each.begins(line, text, self.at)), None)
        self.current = found or self.current
        self.other = 0 if found is not None else self.other + 1

    @property
    def ended(self) -> bool:
        """Whether nothing more is expected."""
        return self.other > MOST_OTHER_LINES or any(each.readings.full for each in self.grammars)

    def close(self) -> list[Readings]:
        """What was read, by tool."""
        self.query.close()
        self.sysstat.close()
        return [each.readings for each in self.grammars]


def is_counters(path: Path) -> bool:
    """Whether the file begins with samples; False as well where it cannot be read."""
    if unpacked_name(path).lower().endswith(NEVER):
        return False
    try:
        data = bytes(beginning(path, LOOKED_AT_BYTES).data)
    except OSError:
        return False
    read = samples_in((data,))
    return sum(map(len, read)) >= LEAST_SAMPLES or any(each.remark for each in read)


def samples_in(pieces: Iterable[bytes]) -> list[Readings]:
    """What the text holds, by tool."""
    samples = Samples()
    for line, text in _lines(LineReader(pieces, lambda: True)):
        samples.take(line, text)
        if samples.ended:
            break
    return samples.close()


def _lines(reader: LineReader) -> Iterator[tuple[int, str]]:
    for raw in reader:
        text = raw.data[:LONGEST_LINE].decode("utf-8", "replace").rstrip("\r\n")
        text = COLOUR.sub("", text) if "\x1b" in text else text
        yield raw.number, unquoted(text) if text.startswith(">") else text


def unquoted(text: str) -> str:
    """A line that an issue or a mail quotes with ">", in whose source "#" may have a backslash."""
    return QUOTED.sub("", text).replace("\\#", "#", 1)


def read_counters(path: Readable, called: str = "") -> CounterFile:
    """All samples of a file in bounded memory; ``InputError`` where it cannot be read. ``called``: what the run calls
    the file, else its name."""
    expansion = Expansion(path, LIMITS)
    read = samples_in(_whole_or_first(expansion))
    name = called or getattr(path, "name", str(path))
    notes = [each.remark for each in read if each.remark and not len(each)]
    notes += [f"{expansion.damage}, and what follows was left out"] if expansion.damage else []
    notes += (
        [f"it holds more than {MOST_SAMPLES} values; the first are used"] if any(each.full for each in read) else []
    )
    records = joined_counters(*(counters_of(each, name) for each in read if len(each)))
    return CounterFile(records, tuple(notes), tuple(said for each in read if len(each) for said in each.notes))


def _whole_or_first(expansion: Expansion) -> Iterator[bytes]:
    """The bytes as far as they can be expanded."""
    given = False
    try:
        for piece in expansion:
            given = True
            yield piece
    except InputError as error:
        if not given or isinstance(error.__cause__, OSError):
            raise
        expansion.damage = str(error).partition(": ")[2]


def counters_of(readings: Readings, name: str, listed_as: str = COUNTER_FORMAT) -> CounterRecords:
    """The samples of one tool in the file of that name, which the run lists under the format ``listed_as``."""
    import numpy as np

    texts = {"part": readings.parts, "counter": readings.counters}
    table = samples_table(
        {
            **{"time_unix_ns": readings.times, "tick": readings.ticks, "device": readings.places},
            **{"value": readings.values, "line": readings.lines},
            **{name: repeated_text(list(each.known), np.asarray(each.places)) for name, each in texts.items()},
            "host": repeated_text([readings.host], np.zeros(len(readings), dtype=np.int64)),
        }
    )
    source = CounterSource(
        format=listed_as,
        path=name,
        tool=readings.tool,
        clock=readings.clock,
        interval_s=readings.interval_s,
        driver=readings.driver,
        devices=tuple(sorted(readings.devices.items())),
        host=readings.host,
        cores=readings.cores,
        buses=tuple(sorted(readings.buses.items())),
        numbered=readings.numbered,
        since_start=readings.since_start,
    )
    return CounterRecords(table, (source,))
