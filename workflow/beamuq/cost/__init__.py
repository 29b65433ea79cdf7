"""What a study takes in time, memory and downloads: measured, and told before a run."""
