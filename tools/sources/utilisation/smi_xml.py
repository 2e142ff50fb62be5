"""The XML of ``nvidia-smi -q -x``, line by line: no document is parsed, so no entity of it is ever expanded.

Elements: nvsmi_device_v12.dtd. Each stands on a line of its own, with its value or as the begin or end of a section;
they have the names of ``nvidia-smi -q`` with some words shortened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import Moment, Readings
from tools.sources.utilisation.smi_details import SmiDetails

ROOT = "nvidia_smi_log"
BEGIN = re.compile(r"\s*<([a-z_]{2,60})(?: [^<>]{0,200})?>\s*\Z")
END = re.compile(r"\s*</([a-z_]{2,60})>\s*\Z")
VALUE = re.compile(r"\s*<([a-z_]{2,60})>([^<>&]{0,200})</\1>\s*\Z")
OTHER = re.compile(r"\s*<(?:[?!]|[a-z_]{2,60} ?/>)|\s*<([a-z_]{2,60})>[^<>]{0,200}</\1>\s*\Z")
OF_DEVICE, OF_SECTION = 2, 3  # open elements: of deeper ones, as parts of a device, the values are others
DEEPEST = 32
SHORTENED = {
    **{"gpu util": "gpu", "memory util": "memory", "gpu temp": "gpu current temp"},
    **{"memory temp": "memory current temp", "sm clock": "sm", "mem clock": "memory"},
    "instant power draw": "instantaneous power draw",
}
REASON = re.compile(r"clocks (?:throttle|event) reason (?:gpu )?")


@dataclass
class SmiXml:
    """One document after the other; each is one reading."""

    readings: Readings = field(default_factory=lambda: Readings("nvidia-smi -q -x"))
    listing: SmiDetails = field(init=False)
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listing = SmiDetails(self.readings)

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The first element of a document."""
        found = BEGIN.match(text)
        if found is None or found[1] != ROOT:
            return False
        self.opened = [ROOT]
        self.listing.tick, self.listing.device, self.listing.at = self.listing.tick + 1, -1, at
        return True

    def takes(self, line: int, text: str) -> bool:
        """A section, its end, or a value."""
        if not self.opened:
            return False
        if value := VALUE.match(text):
            self._value(line, value[1].replace("_", " "), value[2].strip())
        elif begin := BEGIN.match(text):
            if begin[1] == ROOT or len(self.opened) >= DEEPEST:  # the document before it was cut
                return False
            self.opened.append(begin[1])
            if begin[1] == "gpu" and len(self.opened) == OF_DEVICE:
                self.listing.device, self.listing.taken = self.listing.device + 1, set()
            self.listing.section = begin[1].replace("_", " ")
        elif end := END.match(text):
            if self.opened[-1] != end[1]:
                return False
            self.opened.pop()
        else:
            return not text.strip() or OTHER.match(text) is not None
        return True

    def _value(self, line: int, name: str, value: str) -> None:
        depth = len(self.opened)
        if depth == OF_SECTION and self.opened[1] == "gpu":
            self.listing.section = self.opened[-1].replace("_", " ")
            self.listing.value(line, SHORTENED.get(REASON.sub("", name), REASON.sub("", name)), value)
        elif depth <= OF_DEVICE:
            self.listing.section = ""
            self.listing.value(line, name, value)
