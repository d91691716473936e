"""Top floor: what people and programs ask with: command line, Flower tabs, HTTP API, demo site."""
