"""Templates to prompts: text files a person can read, and one function that fills them in."""
