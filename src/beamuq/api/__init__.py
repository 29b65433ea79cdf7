"""The methods on one's own model and candidates, without a study: ``beamuq.score`` and others."""
