"""What a study was made of: models, data, versions, and answers that came out empty or cut."""
