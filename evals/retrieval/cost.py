"""Time and memory of the index, in a process of its own: ``python -m evals.retrieval.cost FOLDER`` prints JSON."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from case_library.library import BUNDLED_CASES, case_files, read_case_bytes
from evals.benchmarks.process import cost_of
from evals.retrieval.questions import load_questions

REPEATED = 2  # rounds over the questions, after one that warms up


@dataclass(frozen=True)
class Timing:
    """Seconds to build and to open from the cache, milliseconds of warm queries, the peak memory of the process."""

    cases: int
    build_s: float
    open_s: float
    query_ms: float
    slowest_ms: float
    peak_mib: float = 0.0


def measured(folder: Path, builds: int = 3) -> Timing:
    """The timing of a folder, memory included; medians over ``builds`` processes, the slowest query of all."""
    runs: list[Timing] = []
    for _ in range(builds):
        cost = cost_of([sys.executable, "-m", "evals.retrieval.cost", str(folder)], {})
        runs.append(Timing(**{**json.loads(cost.output), "peak_mib": cost.peak_mib}))
    named = ("build_s", "open_s", "query_ms", "peak_mib")
    medians = {name: statistics.median(getattr(run, name) for run in runs) for name in named}
    return replace(runs[0], slowest_ms=max(run.slowest_ms for run in runs), **medians)


def time_index(folder: Path) -> Timing:
    """Build, open and ask in this process; imports count towards the build."""
    begun = time.perf_counter()
    from case_library.retrieval.query import CaseQuery
    from case_library.retrieval.recall import CaseIndex

    texts = [question.text for question in load_questions()]
    loaded = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        begun += time.perf_counter() - loaded
        CaseIndex.open(folder, Path(cache)).close()
        built = time.perf_counter()
        with CaseIndex.open(folder, Path(cache)) as index:
            opened = time.perf_counter()
            spent: list[float] = []
            for text in texts * (1 + REPEATED):
                asked = time.perf_counter()
                index.search(CaseQuery(text=text))
                spent.append((time.perf_counter() - asked) * 1e3)
    warm = spent[len(texts) :]
    return Timing(len(case_files(folder)), built - begun, opened - built, statistics.median(warm), max(warm))


def enlarge(target: Path, count: int, source: Path = BUNDLED_CASES) -> None:
    """Fill a folder with ``count`` valid cases: those of the library again and again, each copy with a signal more."""
    originals = [(path.stem, read_case_bytes(path).decode()) for path in case_files(source)]
    for number in range(count):
        id, text = originals[number % len(originals)]
        copy = number // len(originals)
        name = f"{id[:70]}-copy-{copy}" if copy else id
        changed = text.replace(f"id: {id}\n", f"id: {name}\n", 1)
        changed = changed.replace("\nsignals:\n", f"\nsignals:\n- run{copy} again\n", 1)
        (target / f"{name}.yaml").write_text(changed if copy else text, encoding="utf-8")


def measured_enlarged(count: int) -> Timing:
    """The timing of a library of ``count`` cases made from the bundled one, built once."""
    with tempfile.TemporaryDirectory(prefix="hermes-enlarged-") as folder:
        enlarge(Path(folder), count)
        return measured(Path(folder), builds=1)


if __name__ == "__main__":
    print(json.dumps(asdict(time_index(Path(sys.argv[1])))))
