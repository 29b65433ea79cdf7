"""Models and scorers on disk: fetched once by hash, then loaded from a local folder only."""
