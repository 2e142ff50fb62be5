"""torch.compile's log of functions that it compiles again, and torch_xla's report of its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.analyzers.registry import check_of
from tools.sources.job_log.recognise import holds_records
from tools.sources.load import load_run
from tools.views.profile import Profile

AGAIN = """\
[2026-03-02 10:00:0{0},549] torch._dynamo.guards.__recompiles: [DEBUG] Recompiling function forward in /a/b/net.py:28
[2026-03-02 10:00:0{0},549] torch._dynamo.guards.__recompiles: [DEBUG]     triggered by the following guard failure(s):
[2026-03-02 10:00:0{0},549] torch._dynamo.guards.__recompiles: [DEBUG]     - tensor 'L['x']' size mismatch at index 0. \
expected 20, actual 2{0}
"""
HEAD = "[rank7]:W0618 02:36:28.277843 6175 site-packages/torch/_dynamo/convert_frame.py:964] [1/8] "
LIMIT = f"""\
{HEAD}torch._dynamo hit config.recompile_limit (8)
{HEAD}   function: 'step' (/a/b/optim.py:81)
{HEAD}   last reason: 1/7: L['flag'] == True
"""
XLA = """\
Metric: CompileTime
  TotalSamples: 2
  Accumulator: 01m58s793ms768.238us
  ValueRate: 02s816ms572.895us / second
  Percentiles: 1%=28s607ms1.760us; 99%=30s186ms766.478us
Metric: InboundData
  TotalSamples: 3
  Accumulator: 2.52GB
Counter: CachedCompile
  Value: 39
"""


def profile_of(folder: Path, text: str) -> Profile:
    (folder / "job.out").write_text(text)
    return Profile(load_run([folder]))


def test_recompilations_are_counted_by_function_with_their_first_reason(tmp_path: Path) -> None:
    text = "".join(AGAIN.format(at) for at in range(1, 5)) + LIMIT
    assert holds_records((text.encode(),))
    again, limited = read(tmp_path, text).recompilations
    assert (again.function, again.place, again.count, again.limits) == ("forward", "/a/b/net.py:28", 4, 0)
    assert again.reason == "tensor 'L['x']' size mismatch at index 0. expected 20, actual 21"
    assert (limited.function, limited.count, limited.limits) == ("step", 0, 1)
    assert limited.reason == "L['flag'] == True"


def test_a_changing_size_is_named_and_another_reason_is_no_changing_shape(tmp_path: Path) -> None:
    check = check_of(profile_of(tmp_path, AGAIN.format(1) + AGAIN.format(2) + LIMIT), "cpu.logged_recompilations")
    assert check is not None
    first, second = check.findings
    assert (first.mechanism, second.mechanism) == ("dynamic_shape", None)
    assert first.claim.names == ("forward", "b/net.py:28", "size of L['x'] at index 0: expected 20, actual 21")
    assert [fact.value for fact in first.claim.facts] == [2]


def test_the_metrics_of_torch_xla_state_how_long_compilations_took(tmp_path: Path) -> None:
    assert holds_records((XLA.encode(),))
    actions = read(tmp_path, XLA + "done\n").actions
    assert actions[["table", "action", "calls"]].to_numpy().tolist() == [["torch_xla", "CompileTime", 2.0]]
    assert actions["total_ms"].tolist() == pytest.approx([118_793.768238])


@pytest.mark.parametrize("text", ["- a list\n  - of things\n", "Metric: accuracy\n"])
def test_a_list_or_a_metric_alone_is_no_output_of_a_compiler(text: str) -> None:
    assert not holds_records((text.encode(),))
