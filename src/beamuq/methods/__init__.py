"""The uncertainty methods: one function per method, by the paper's name."""

from beamuq.methods.method_inputs import Answer, Evidence, Pairs
from beamuq.methods.registry import (
    METHODS,
    Formulation,
    Method,
    compute,
    register,
    resolve,
    stored_variant,
)

__all__ = [
    "METHODS",
    "Answer",
    "Evidence",
    "Formulation",
    "Method",
    "Pairs",
    "compute",
    "register",
    "resolve",
    "stored_variant",
]
