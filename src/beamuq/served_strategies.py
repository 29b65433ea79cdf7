"""Which strategies cannot be decoded over a model server, by their names."""

from __future__ import annotations

from beamuq.strategy_names import SHIPPED, parse

WHOLE = "every token's probability, and a server lists the most probable ones"
OUTSIDE_A_SET = ("hybrid", "optimal_stratified", "adaptive", "stochastic")


def lacking_over_server(strategy: str) -> str | None:
    """Why a strategy of the package cannot be decoded over a server; None: it can.

    Of a search of one's own nothing is known: None.
    """
    kind, parameters = parse(strategy)
    if kind == "sample" and parameters.get("T", 1.0) != 1.0:
        return f"a temperature of {parameters['T']:g} needs {WHOLE}"
    if kind == SHIPPED:
        return f"the shipped distribution is cut and sharpened, which needs {WHOLE}"
    if kind in OUTSIDE_A_SET:
        return f"draws outside a set need {WHOLE}"
    if kind == "systematic" or (kind == "all_above" and "draws" in parameters):
        return f"draws in the order of token ids need {WHOLE}"
    return None
