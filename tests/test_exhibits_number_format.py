"""How numbers are printed."""

from __future__ import annotations

import pytest

from beamuq.exhibits import number_format


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5432, ".543"), (-0.0961, "-.096"), (1.0, "1.000"), (-1.25, "-1.250"), (0.0, ".000"), (-0.0001, ".000")],
)
def test_decimals_have_no_zero_before_the_point_and_no_negative_zero(value: float, text: str) -> None:
    assert number_format.decimal(value) == text


def test_arrow_needs_a_strict_improvement_of_two_defined_values() -> None:
    assert number_format.better(0.46101, 0.46099)
    assert not number_format.better(0.461, 0.461)
    assert not number_format.better(0.1 + 0.2, 0.3)
    assert not number_format.better(None, 0.3)
    assert not number_format.better(0.3, None)


def test_percentages_keep_the_digits_asked_for() -> None:
    assert number_format.percent(0.63) == "63%"
    assert number_format.percent(0.227, 1) == "22.7%"
