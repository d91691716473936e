"""The HTTP API under ``/api/ratelane`` (rule U4): one table of routes, from which handlers and the OpenAPI document are made."""
