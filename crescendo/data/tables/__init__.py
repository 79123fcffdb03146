"""A user's tables: text, missing cells and numbers of any size, and the schema by which they become features."""
