"""Everything that judges texts: similarity s(y, y*), answer quality, P(True), CCP labels, token relevance."""
