"""How a run is shown with ``snakemake --logger beamuq``; Snakemake finds a plug-in by the name of its module.

On a terminal: progress by rule and in total, drawn by snakemake-logger-plugin-rich, and below it the last line of each
running job's log. Elsewhere: one line a finished job. A job that fails is told by the last line of its log, at once and
again at the end; one that was stopped, by Ctrl-C or in decoding by SIGTERM, is no failure. The long form is in
``.snakemake/log``, and on the screen without this option.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice
from logging import LogRecord
from pathlib import Path

from rich.console import Group
from rich.text import Text
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_logger_plugin_rich import LogHandler as RichLogHandler

STOPPED = "stopped"  # how the log of a step ends that was asked to stop
TOLD_BY_JOB = ("CalledProcessError", "At least one job did not complete successfully")
SHOWN = 8  # running jobs whose logs are read, once a second: a cluster runs hundreds


@dataclass(frozen=True)
class Job:
    """A job that runs. ``name``: its rule and wildcards; ``log``: its log file, "" where it has none."""

    name: str
    log: str
    started: float = field(default_factory=time.monotonic)

    def last_line(self) -> str:
        """The last line of its log that says something; "" where there is none."""
        try:
            with Path(self.log).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 4096))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class LogHandler(RichLogHandler):  # type: ignore[misc]
    """What Snakemake calls with each event of a run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._running: dict[int, Job] = {}
        self._failed: list[str] = []
        self._ended = self._total = self._stopped = 0
        self._drawn, self._drawn_at = Text(), 0.0
        self.live_display.update(Group(self.live_display.renderable, self))

    def emit(self, record: LogRecord) -> None:
        """Show one event."""
        told, event = vars(record), getattr(record, "event", None)
        if event == LogEvent.RUN_INFO:
            self._total = told["stats"]["total"]
        elif event == LogEvent.JOB_INFO:
            named = "/".join(map(str, told["wildcards"].values()))
            self._running[told["jobid"]] = Job(f"{told['rule_name']} {named}".strip(), next(iter(told["log"]), ""))
        elif event == LogEvent.JOB_FINISHED:
            self._finished(self._running.pop(told["job_id"], None))
        elif event == LogEvent.JOB_ERROR:
            self._fail(self._running.pop(told["jobid"], None))
            return  # what is drawn otherwise is the whole log
        elif event == LogEvent.ERROR and any(text in record.getMessage() for text in TOLD_BY_JOB):
            return  # the job's whole command, or nothing new; that it failed is told with the last line of its log
        super().emit(record)

    def close(self) -> None:
        """End the display, and tell again what failed."""
        super().close()
        failed, self._failed = self._failed, []
        for line in failed:
            self.console.print(Text(line, style="red"), soft_wrap=True)
        if self._stopped and self._ended < self._total:  # a stopped job that is tried again may end well
            done = f"stopped: {self._ended} of {self._total} jobs are done; the same command goes on after them"
            self.console.print(Text(done), soft_wrap=True)
            self._stopped = 0

    def __rich__(self) -> Text:
        """Below the bars: running jobs and where they are."""
        if time.monotonic() - self._drawn_at > 1:
            jobs = list(islice(self._running.values(), SHOWN))
            self._drawn = Text("\n".join(f"{job.name}: {job.last_line()}" for job in jobs), style="dim", no_wrap=True)
            self._drawn_at = time.monotonic()
        return self._drawn

    def _finished(self, job: Job | None) -> None:
        self._ended += 1
        if job is not None and not self.console.is_terminal:
            seconds = time.monotonic() - job.started
            line = f"{time.strftime('%H:%M:%S')} {self._ended} of {self._total}: {job.name}, {seconds:.0f} s"
            self.console.print(Text(line), soft_wrap=True)

    def _fail(self, job: Job | None) -> None:
        if job is None:
            return
        if job.last_line().startswith(STOPPED):
            self._stopped += 1
            return
        self._failed.append(f"failed: {job.name}: {job.last_line() or 'nothing in its log'} ({job.log})")
        self.console.print(Text(self._failed[-1], style="red"), soft_wrap=True)
