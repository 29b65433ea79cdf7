"""Models and rules that judge texts: similarity s(y, y*), answer quality, P(True), CCP labels,
token relevance.
"""
