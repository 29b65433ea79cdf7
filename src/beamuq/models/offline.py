"""Decide whether a job may use the network, and set the environment that forbids the hub.

Every job of the workflow starts with the hub's libraries forbidden to connect (:func:`environment`,
so that no rule can forget it); only the steps that fetch lift this, for themselves, unless the
machine is offline.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
FETCHING = "BEAMUQ_OFFLINE"
TELEMETRY = "HF_HUB_DISABLE_TELEMETRY"

_TRUE = ("1", "ON", "YES", "TRUE")


def is_offline(environ: Mapping[str, str]) -> bool:
    """Whether an environment forbids the hub; for fetching, the workflow's word counts first."""
    value = environ.get(FETCHING) or environ.get(SWITCHES[0]) or environ.get(SWITCHES[1]) or ""
    return value.upper() in _TRUE


def environment(offline: bool) -> dict[str, str]:
    """Variables that forbid the hub to a job, and tell one that fetches what it may do."""
    forbidden = dict.fromkeys((*SWITCHES, TELEMETRY), "1")
    return forbidden | {FETCHING: str(int(offline or is_offline(os.environ)))}


def open_for_fetching(*, offline: bool) -> bool:
    """Let this process ask the hub, unless that is forbidden; returns whether it is offline.

    To be called before the hub's libraries are imported, which read their switches then.
    """
    offline = offline or is_offline(os.environ)
    os.environ.update(dict.fromkeys(SWITCHES, str(int(offline))) | {TELEMETRY: "1"})
    return offline
