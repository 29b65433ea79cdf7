"""Raw datasets to question rows, and question rows to prompts."""
