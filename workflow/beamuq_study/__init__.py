"""The study: questions, stages, exhibits, the comparison with the paper; above the library
``beamuq``.
"""
