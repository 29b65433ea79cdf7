"""What a study runs on one machine: its checks, the files and settings of every rule, its jobs."""
