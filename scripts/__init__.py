"""What is run on the project rather than by it."""
