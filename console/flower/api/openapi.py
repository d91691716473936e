"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from http import HTTPStatus
from importlib import metadata
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from console.flower.api.routes import ROUTES, Route
from console.flower.api.shapes import Document, Problem

ROOT = "/api/ratelane"
_PARAMETER = re.compile(r"\{(\w+)\}")
_REF = "#/components/schemas/{model}"


@lru_cache(maxsize=4)
def document(root: str = ROOT) -> dict[str, Any]:
    """Return the document of the API below the path `root`."""
    models = _models(ROUTES)
    _, schemas = models_json_schema([(model, "serialization" if _is_answer(model) else "validation") for model in models],
                                    ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths["/openapi.json"] = {"get": _own()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ratelane", "version": _version(), "description": (
            "Lanes, jobs and the schedule. Documents are those of the command line's --json. A list that goes on names its "
            "next part in the headers Link and X-Next-Cursor. Errors are problem details (RFC 9457).")},
        "servers": [{"url": root}],
        "security": [{"basic": []}, {"session": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": "user", "description": "Flower's OAuth login"}}},
    }


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": route.call.__name__, "summary": route.summary, "tags": [route.path.split("/")[1]],
        "parameters": [*_path_parameters(route.path), *_query_parameters(route.query)],
        "responses": {str(status): _response(route, status) for status in route.statuses}}
    if route.body is not None:
        required = any(field.is_required() for field in route.body.model_fields.values())
        made["requestBody"] = {"required": required, "content": {
            "application/json": {"schema": {"$ref": _REF.format(model=route.body.__name__)}}}}
    return made


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in _PARAMETER.findall(path)]


def _query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    schema = model.model_json_schema(ref_template=_REF)
    required = schema.get("required", [])
    return [{"name": name, "in": "query", "required": name in required, "schema": _without_null(one),
             **({"description": one["description"]} if "description" in one else {})}
            for name, one in schema.get("properties", {}).items()]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is left out is not in the address at all: no text means null."""
    kept = {key: value for key, value in schema.items() if key not in ("title", "description", "default")}
    choices = [one for one in kept.pop("anyOf", []) if one.get("type") != "null"]
    found = kept | choices[0] if len(choices) == 1 else kept | ({"anyOf": choices} if choices else {})
    return found | ({"default": schema["default"]} if schema.get("default") is not None else {})


def _response(route: Route, status: int) -> dict[str, Any]:
    if status != route.status:
        return problem_response(status)
    headers = {"Link": "the next part of the list", "X-Next-Cursor": "its cursor"} if route.paged else {}
    return {"description": route.summary, "content": {"application/json": {"schema": _schema(route.answer)}}, **({
        "headers": {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()}}
        if headers else {})}


def problem_response(status: int) -> dict[str, Any]:
    """Return the description of an error."""
    return {"description": HTTPStatus(status).phrase,
            "content": {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}}}


def _own() -> dict[str, Any]:
    return {"operationId": "openapi", "summary": "This document.", "tags": ["openapi"], "parameters": [], "responses": {
        "200": {"description": "OpenAPI 3.1", "content": {"application/json": {"schema": {"type": "object"}}}},
        **{str(status): problem_response(status) for status in (401, 403, 405, 422, 503)}}}


def _schema(answer: Any) -> dict[str, Any]:
    if getattr(answer, "__origin__", None) is list:
        return {"type": "array", "items": _schema(answer.__args__[0])}
    if isinstance(answer, type) and issubclass(answer, BaseModel):
        return {"$ref": _REF.format(model=answer.__name__)}
    return TypeAdapter(answer).json_schema()


def _models(routes: Iterable[Route]) -> Sequence[type[BaseModel]]:
    found: dict[type[BaseModel], None] = {Problem: None}
    for route in routes:
        for model in (route.answer, *getattr(route.answer, "__args__", ()), route.body):
            if isinstance(model, type) and issubclass(model, BaseModel):
                found[model] = None
    return list(found)


def _is_answer(model: type[BaseModel]) -> bool:
    return issubclass(model, Document)


def _version() -> str:
    try:
        return metadata.version("ratelane")
    except metadata.PackageNotFoundError:
        return "dev"
