"""What runs in workers and beat."""
