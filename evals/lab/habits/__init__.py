"""A second family of recorded trainings: many small scripts as other people write them, with known faults.

The contract of a script (one file in ``scripts/``, complete by itself, at home in any user's repository):

- It is copied, with ``clock.py``, into an empty folder and started there as a user starts it: ``python SCRIPT
  ARGUMENTS`` for one process; for several, one process per rank with the variables that ``torchrun`` sets (``RANK``,
  ``LOCAL_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR``, ``MASTER_PORT``, ``OMP_NUM_THREADS=1``), backend gloo. Ranks are
  started one by one because each may be placed on a host, core or quota of its own.
- ``RUN_DIR`` names the folder of the run: the script writes its traces (any names) and its own logs there; with
  ``hermes_agent.monitor`` its records go to ``RUN_DIR/monitor``. What it prints, all ranks and both streams, becomes
  ``train.log``. Data and checkpoints stay in the working folder. ``SHARD_STORE`` is the socket of a slow store where
  the table asks for one.
- After every optimizer step each rank calls ``clock.tick()``, which is no part of the run. Steps next to an active
  profiler do not count as measured, nor the first ones (``skip``), unless the profiler is itself the fault.
- A launch lasts about ten seconds, with at least 25 measured steps of 30 to 300 ms, and profiles two to six of them.
- What is wrong lives in arguments, data, program or environment. Nothing that is recorded names it: options,
  functions and files have the names a user would give them.

``runs.yaml`` (split dev) and other tables of the same form say which script runs how, what is wrong and what a right
answer is; ``python -m evals.lab.habits`` records them into ``recorded/ID/{slow,fixed}``, or ``run`` where nothing is
wrong.
"""
