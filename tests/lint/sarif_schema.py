"""What SARIF 2.1.0 demands of the objects we write, restated from the official JSON schema (OASIS, errata 01).

No package of modest size carries that schema, and its text is not ours to copy. So this is no validator for SARIF at
large: objects that we never write are missing and therefore refused, every object is closed as it is there, and of each
that we do write all properties, required ones, types and limits are those of the original."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
BAG: Schema = {"type": "object"}


def whole(minimum: int) -> Schema:
    return {"type": "integer", "minimum": minimum}


def one(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def some(items: Schema, at_least: int = 0, is_set: bool = False) -> Schema:
    return {"type": "array", "minItems": at_least, "uniqueItems": is_set, "items": items}


def closed(required: str = "", **properties: Schema) -> Schema:
    """An object with these properties, and a bag for what a tool adds."""
    known = {name.replace("dollar_", "$"): value for name, value in properties.items()} | {"properties": BAG}
    demanded = {"required": required.split()} if required else {}
    return {"type": "object", "additionalProperties": False, "properties": known, **demanded}


LEVEL: Schema = {"enum": ["none", "note", "warning", "error"]}
DEFINITIONS: dict[str, Schema] = {
    "run": closed(
        "tool",
        tool=one("tool"),
        columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        results=some(one("result")),
    ),
    "tool": closed("driver", driver=one("toolComponent")),
    "toolComponent": closed(
        "name",
        name=TEXT,
        version=TEXT,
        semanticVersion=TEXT,
        shortDescription=one("multiformatMessageString"),
        informationUri={"type": "string", "format": "uri"},
        rules=some(one("reportingDescriptor"), is_set=True),
    ),
    "reportingDescriptor": closed(
        "id",
        id=TEXT,
        name=TEXT,
        shortDescription=one("multiformatMessageString"),
        fullDescription=one("multiformatMessageString"),
        help=one("multiformatMessageString"),
        helpUri={"type": "string", "format": "uri"},
        defaultConfiguration=one("reportingConfiguration"),
    ),
    "reportingConfiguration": closed(
        enabled={"type": "boolean"}, level=LEVEL, rank={"type": "number", "minimum": -1, "maximum": 100}
    ),
    "multiformatMessageString": closed("text", text=TEXT, markdown=TEXT),
    "message": {
        **closed(text=TEXT, markdown=TEXT, id=TEXT, arguments=some(TEXT)),
        "anyOf": [{"required": ["text"]}, {"required": ["id"]}],
    },
    "result": closed(
        "message",
        ruleId=TEXT,
        ruleIndex=whole(-1),
        level=LEVEL,
        message=one("message"),
        locations=some(one("location")),
        codeFlows=some(one("codeFlow")),
        relatedLocations=some(one("location"), is_set=True),
        fixes=some(one("fix"), is_set=True),
        partialFingerprints={"type": "object", "additionalProperties": TEXT},
        occurrenceCount=whole(1),
    ),
    "location": closed(
        id=whole(-1),
        physicalLocation=one("physicalLocation"),
        logicalLocations=some(one("logicalLocation"), is_set=True),
        message=one("message"),
    ),
    "physicalLocation": {
        **closed(artifactLocation=one("artifactLocation"), region=one("region"), contextRegion=one("region")),
        "required": ["artifactLocation"],
    },
    "logicalLocation": closed(
        name=TEXT, index=whole(-1), fullyQualifiedName=TEXT, decoratedName=TEXT, parentIndex=whole(-1), kind=TEXT
    ),
    "artifactLocation": closed(uri={"type": "string", "format": "uri-reference"}, uriBaseId=TEXT, index=whole(-1)),
    "region": closed(
        startLine=whole(1),
        startColumn=whole(1),
        endLine=whole(1),
        endColumn=whole(1),
        charOffset=whole(-1),
        charLength=whole(0),
        byteOffset=whole(-1),
        byteLength=whole(0),
        snippet=one("artifactContent"),
        message=one("message"),
        sourceLanguage=TEXT,
    ),
    "codeFlow": closed("threadFlows", message=one("message"), threadFlows=some(one("threadFlow"), 1)),
    "threadFlow": closed("locations", id=TEXT, message=one("message"), locations=some(one("threadFlowLocation"), 1)),
    "threadFlowLocation": closed(
        index=whole(-1), location=one("location"), nestingLevel=whole(0), executionOrder=whole(-1)
    ),
    "fix": closed(
        "artifactChanges", description=one("message"), artifactChanges=some(one("artifactChange"), 1, is_set=True)
    ),
    "artifactChange": closed(
        "artifactLocation replacements",
        artifactLocation=one("artifactLocation"),
        replacements=some(one("replacement"), 1),
    ),
    "replacement": closed("deletedRegion", deletedRegion=one("region"), insertedContent=one("artifactContent")),
    "artifactContent": closed(text=TEXT, binary=TEXT, rendered=one("multiformatMessageString")),
}
SCHEMA: Schema = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    **closed(
        "version runs",
        dollar_schema={"type": "string", "format": "uri"},
        version={"enum": ["2.1.0"]},
        runs=some(one("run")),
    ),
    "definitions": DEFINITIONS,
}
