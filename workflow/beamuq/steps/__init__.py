"""One module a rule: ``run(job, machine)`` reads the job's files, calls pure functions, and writes atomically."""
