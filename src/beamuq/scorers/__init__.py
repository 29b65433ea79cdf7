"""Models and rules that judge texts: similarity, quality, P(True), CCP labels, relevance."""
