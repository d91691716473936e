"""The lane consumer: everything that a worker needs to serve lanes."""
