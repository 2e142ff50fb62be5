"""Questions for one kind of figure: kernels, calls, collectives, idle time, memory and what was recorded."""

from __future__ import annotations

from hermes_agent.questions.calls import top_host_calls
from hermes_agent.questions.certainty import how_sure
from hermes_agent.questions.collectives import by_kind
from hermes_agent.questions.durations import how_long
from hermes_agent.questions.intent import Intent
from hermes_agent.questions.kernels import top_kernels
from hermes_agent.questions.memory import memory_peak
from hermes_agent.questions.queue import launch_queue
from hermes_agent.questions.recording import what_is_recorded
from hermes_agent.questions.utilisation import how_busy
from hermes_agent.questions.waiting import why_wait
from hermes_agent.questions.workers import how_many_workers

# A blank in the words is written ``\s``. Tried from top to bottom.
MEASURED: tuple[Intent, ...] = (
    Intent(
        name="certainty",
        about="How sure the diagnosis is",
        example="How sure are you?",
        patterns=r"""
            \bhow\s(sure|certain|confident|reliable|accurate|trustworthy)\b
            \bare\syou\s(really\s|quite\s)?(sure|certain|confident)\b
            \bconfidence\b
            \b(can|should)\s(i|we)\s(trust|believe|rely)\b
        """,
        answer=how_sure,
    ),
    Intent(
        name="workers",
        about="How many loader workers to use",
        example="How many workers should I use?",
        patterns=r"""
            \bhow\smany\b.*\b(workers?|loader\sprocess(es)?|loaders)\b
            \bnumber\sof\s(data\s?loader\s|loader\s)?workers\b
            \b(what|which)\snum\sworkers\b
            \bnum\sworkers\b.*\b(should|best|right|use|set|value)\b
        """,
        answer=how_many_workers,
    ),
    Intent(
        name="duration",
        about="How long a step takes",
        example="How long does a step take?",
        patterns=r"""
            \bhow\s(long|slow|fast)\b.*\b(steps?|iterations?)\b
            ^((what\sis|whats)\s)?(the\s|my\s|our\s)?((average|mean|median|typical)\s)?(step|iteration)\s(time|duration|length)$
            \b(steps|iterations)\s(per|a)\ssecond\b
            \bthroughput\b
        """,
        answer=how_long,
    ),
    Intent(
        name="kernels",
        about="Which kernels take most time",
        example="Which kernel takes the most time?",
        patterns=r"""
            \b(which|top|slowest|longest|biggest|largest|heaviest|hottest|expensive|list)\b.*\bkernels?\b
            \bwhat\s(gpu\s|device\s|cuda\s)?kernels?\b
            \bkernels?\b.*\b(most|longest)\b
        """,
        answer=top_kernels,
    ),
    Intent(
        name="host_calls",
        about="Which host calls take most time",
        example="What are the top host calls?",
        patterns=r"""
            \b(which|top|slowest|longest|biggest|expensive|list|most)\b.*\b(calls?|functions?|operators?|operations?|ops)\b
            \bwhat\b.*\b(host|cpu|python|runtime|cuda|api)\s(calls?|functions?)\b
            \bwhat\b.*\b(host|cpu|program)\b.*\b(doing|do|spend)\b
        """,
        answer=top_host_calls,
    ),
    Intent(
        name="collectives",
        about="Which collectives run, and for how long",
        example="Which collectives are there?",
        patterns=r"""
            \b(how\s(long|many|often|much\stime)|list|which|show)\b(?!.*\branks?\b).*\bcollectives?\b
            \b(how\s(long|many|often|much\stime)|list|which|show)\b(?!.*\branks?\b).*\b(all|reduce)\s?(reduce|gather|to\s?all|scatter)s?\b
            \b(how\s(long|many|often|much\stime)|list|which|show)\b(?!.*\branks?\b).*\b(broadcast|barrier|send\srecv)s?\b
            ^(what\sare\s)?(the\s)?collectives?$
            \bcollectives?\sby\b
        """,
        answer=by_kind,
    ),
    Intent(
        name="waiting",
        about="Why ranks wait for each other",
        example="Why do ranks wait?",
        patterns=r"""
            \b(why|how\slong)\b.*\b(ranks?|gpus?|others?|they|everyone|everybody|processes|workers)\b.*\bwait(s|ing)?\b
            \b(who|whom|which\sranks?|what)\b.*\b(ranks?|others?|everybody|everyone|they|all)?\s?wait(s|ing|ed)?\sfor\b
        """,
        answer=why_wait,
    ),
    Intent(
        name="launch_queue",
        about="Why the device is idle, and the launch queue",
        example="Why is the device idle although work is launched?",
        patterns=r"""
            \blaunch\squeue\b
            \bqueue\s(length|depth)\b
            \bidle\b.*\b(launched|queued|why|reasons?)\b
            \b(why|when|how\slong)\b.*\bidle\b
            ^(the\s)?(device\s|gpu\s)?idle(\stime)?$
        """,
        answer=launch_queue,
    ),
    Intent(
        name="utilisation",
        about="How busy the device is",
        example="What is the GPU utilization in percent?",
        patterns=r"""
            \b(gpu|gpus|device|accelerator)s?\s(utili[sz]ation|usage|busy|load)\b
            \bhow\s(busy|idle|well\sused|utili[sz]ed)\b
            \butili[sz]ation\b.*\b(percent(age)?|number|figure)\b
            \b(what|how)\b.*\b(is|high|low|much)\b.*\butili[sz]ation\b
            ^utili[sz]ation$
        """,
        answer=how_busy,
    ),
    Intent(
        name="memory",
        about="How much device memory is used",
        example="What is the peak memory?",
        patterns=r"""
            \b(peak|max|maximum|highest)\b.*\bmemory\b
            \bmemory\b.*\b(peak|usage|used|footprint|consumption)\b
            \bhow\s(much|full)\b.*\bmemory\b
        """,
        answer=memory_peak,
    ),
    Intent(
        name="recording",
        about="What the recording says of the run",
        example="What is this run?",
        patterns=r"""
            ^what\s(is|was|kind\sof\srun\sis)\sthis(\s(run|trace|recording|job|about))?$
            \bwhat\s(am\si|are\swe)\slooking\sat\b
            \bbatch\ssizes?\b
            \b(which|what)\s(kind\sof\s|type\sof\s)?(model|hardware|cluster|layout|shapes?|world\ssize|parallelism)\b
            \bwhat\s(gpus?|devices?)\b(?!.*\b(slow\w*|late|worst|idle|wait\w*|fast\w*)\b)
            \bhow\smany\s(ranks?|gpus?|devices?|steps?|nodes?)\b(?!.*\b(slow\w*|over|late|far|wait\w*)\b)
            \bdescribe\s(the|this)\s(run|trace|recording|job)\b
        """,
        answer=what_is_recorded,
    ),
)
