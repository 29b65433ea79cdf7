"""One command-line module a rule: reads files, calls pure functions, writes atomically."""
