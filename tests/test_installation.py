"""From where beamuq is installed is said the same way by errors and pages."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from beamuq.api.open_models import check_models_extra
from beamuq.errors import BeamUQError
from beamuq.installation import SOURCE, install_command
from sync_evidence import ROOT


def test_the_command_names_the_extra_and_the_place() -> None:
    assert install_command("models,study").startswith(f"pip install '{SOURCE}[models,study]'")
    assert install_command().startswith(f"pip install '{SOURCE}'")


def test_where_torch_is_missing_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find_spec = importlib.util.find_spec

    def without_torch(name: str, package: str | None = None) -> Any:
        return None if name == "torch" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_torch)
    with pytest.raises(BeamUQError) as refused:
        check_models_extra()
    assert "torch" in str(refused.value)
    assert install_command("models") in str(refused.value)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_a_page_that_says_how_to_install_it_says_the_same(page: str) -> None:
    assert f"`pip install '{SOURCE}[models]'`" in (ROOT / page).read_text(encoding="utf-8")
