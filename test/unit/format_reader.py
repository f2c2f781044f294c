"""Reads records as their consumers do and compares what it finds with the events that they were made of: format_reader.py FILE, of lines
that test/unit/format_test.cpp writes. Nothing here is outbox's: JSON, UTF-8, base64 and dates are Python's. What a format says cannot
be carried, and what it leaves out, is written down here a second time, from docs/formats.md and docs/from-debezium.md."""
import base64
import collections
import datetime
import email.message
import json
import re
import sys

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
MICROSECOND = datetime.timedelta(microseconds=1)
TRACE = ("traceparent", "tracestate", "baggage")
ATTRIBUTES = {"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data", "aggregatetype", "sequence",
              "partitionkey", "schemaversion"}


class Different(Exception):
    pass


def same(found, expected, what):
    if found != expected:
        raise Different(f"{what}: read {found!r:.300}, expected {expected!r:.300}")


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def text(data):
    return None if data is None else data.decode("utf-8")


def members(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Different(f"a member twice: {[name for name, _ in pairs]}")
    return result


def plain(value):
    """Whether a String of CloudEvents can have it."""
    return not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xFDD0 <= ord(c) <= 0xFDEF or ord(c) & 0xFFFE == 0xFFFE for c in value)


def is_json(data):
    try:
        json.loads(data.decode("utf-8"), parse_constant=lambda name: 1 / 0)
        return True
    except (ValueError, ZeroDivisionError):
        return False


def is_utf8(data):
    try:
        data.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False


def micros(iso):
    return (datetime.datetime.fromisoformat(iso) - EPOCH) // MICROSECOND


class Case:
    def __init__(self, line):
        self.redis = line["wrapper"] == "outbox_redis"
        self.options = line["options"]
        event = line["event"]
        self.id = event["id"]
        self.created_at = event["created_at"]
        self.aggregate_type, self.aggregate_id, self.event_type, self.content_type = (
            text(unhex(event[name])) for name in ("aggregate_type", "aggregate_id", "event_type", "content_type"))
        self.payload = unhex(event["payload"])
        self.headers = {text(unhex(name)): text(unhex(value)) for name, value in event["headers"]}
        self.error = line["error"]
        self.key, self.body, self.partition = unhex(line["key"]), unhex(line["body"]), line["partition"]
        # As a list: names may be there twice, where the format takes what makes them differ.
        self.fields = [(text(unhex(name)), None if value is None else unhex(value)) for name, value in line["fields"]]
        if self.redis and not line["fields_only"]:
            self.fields = [(name, data) for name, data in (("key", self.key), ("payload", self.body)) if data is not None] + self.fields

    def take_fields(self):
        return members(self.fields)

    def take_body(self, fields, name="payload"):
        return fields.pop(name, None) if self.redis else self.body

    def take_key(self, fields):
        return fields.pop("key", None) if self.redis else self.key


def same_headers(case, fields, expected):
    """What is left of the fields are headers, at Redis with a prefix."""
    prefix = "h:" if case.redis else ""
    for name in fields:
        if not name.startswith(prefix):
            raise Different(f"a field {name!r}")
    same({name[len(prefix):]: text(value) for name, value in fields.items()}, expected, "headers")


def read_outbox(case):
    fields = case.take_fields()
    same(text(case.take_key(fields)), case.aggregate_id, "key")
    same(case.take_body(fields), case.payload, "payload")
    same(text(fields.pop("id")), case.id, "id")
    same(text(fields.pop("type")), case.event_type, "type")
    same(text(fields.pop("aggregate_type")), case.aggregate_type, "aggregate type")
    same(int(fields.pop("created_at")), case.created_at, "time")
    same(text(fields.pop("content_type" if case.redis else "content-type", None)), case.content_type, "content type")
    same_headers(case, fields, case.headers)


def read_payload(case):
    fields = case.take_fields()
    same(text(case.take_key(fields)), case.aggregate_id, "key")
    nothing = case.redis and case.aggregate_id is None and case.payload is None
    same(case.take_body(fields), b"" if nothing else case.payload, "payload")
    same(fields, {}, "fields")


# --- CloudEvents ---

def media_type(case):
    return (case.content_type or "application/json").split(";")[0].rstrip(" \t").lower()


def says_utf8(case):
    header = email.message.Message()
    header["content-type"] = case.content_type or "application/json"
    return header.get_content_charset("utf-8") in ("utf-8", "us-ascii")


def refused_cloudevent(case, binary):
    if binary and (case.content_type or "").lower().startswith("application/cloudevents"):
        return "CONTENT_TYPE_TAKEN"
    if case.event_type == "" or not plain(case.event_type):
        return "NO_CLOUDEVENT"
    if any(name[:3].lower() == "ce_" for name in case.headers):
        return "HEADER_NAME_TAKEN"
    return ""


def same_attributes(case, attributes):
    """Takes them out; what is left is the event's own. Returns the headers that are none."""
    same(attributes.pop("specversion"), "1.0", "specversion")
    same(attributes.pop("source"), "/outbox/shop", "source")
    same(attributes.pop("id"), case.id, "id")
    same(attributes.pop("type"), case.event_type, "type")
    same(micros(attributes.pop("time")), case.created_at, "time")
    sequence = attributes.pop("sequence")
    same((len(sequence), int(sequence)), (16, case.created_at), "sequence")
    same(attributes.pop("datacontenttype"), case.content_type or "application/json", "content type")
    for name, value in (("subject", case.aggregate_id), ("partitionkey", case.aggregate_id), ("aggregatetype", case.aggregate_type)):
        same(attributes.pop(name, None), value if value and plain(value) else None, name)
    headers = {}
    for name, value in case.headers.items():
        attribute = {"dataschema": "dataschema", "schema_version": "schemaversion"}.get(name)
        if attribute is None and re.fullmatch("[a-z0-9]{1,20}", name) and name not in ATTRIBUTES:
            attribute = name
        can = plain(value) and (name != "dataschema" or re.fullmatch(r"https://a\.example/b", value) is not None)
        if attribute is not None and can:
            same(attributes.pop(attribute, None), value, f"attribute {attribute}")
        if attribute is None or not can or name in TRACE:
            headers[name] = value
    same(attributes, {}, "attributes")
    return headers


def read_cloudevents(case):
    same(case.error, refused_cloudevent(case, True), "refused")
    if case.error:
        return
    same(text(case.key), case.aggregate_id, "key")
    fields = case.take_fields()
    same(case.take_body(fields, "data"), case.payload, "data")
    attributes = {name[3:]: text(fields.pop(name)) for name in list(fields) if name.startswith("ce_")}
    attributes["datacontenttype"] = text(fields.pop("content-type"))
    same_headers(case, fields, same_attributes(case, attributes))


def structured(document):
    """The members as text, and that of `data` as it is written."""
    decoder = json.JSONDecoder(object_pairs_hook=members)
    attributes, at = {}, 1
    while document[at] != "}":
        name, at = json.decoder.scanstring(document, at + 1, True)
        same(document[at], ":", "JSON")
        if name in attributes:
            raise Different(f"a member twice: {name}")
        if name == "data":  # the last one, spaces and all
            attributes[name] = document[at + 1:-1]
            json.loads(attributes[name])
            return attributes
        attributes[name], end = decoder.raw_decode(document, at + 1)
        at = end + (document[end] == ",")
    same(at, len(document) - 1, "the end of the JSON")
    return attributes


def read_cloudevents_json(case):
    same(case.error, refused_cloudevent(case, False), "refused")
    if case.error:
        return
    same(text(case.key), case.aggregate_id, "key")
    fields = case.take_fields()
    same(text(fields.pop("content-type")), "application/cloudevents+json; charset=UTF-8", "content type")
    attributes = structured(text(case.take_body(fields, "event")))
    data, in_base64 = attributes.pop("data", None), attributes.pop("data_base64", None)
    kind = media_type(case)
    if case.payload is None:
        same((data, in_base64), (None, None), "data")
    elif case.content_type is None or (says_utf8(case) and kind.endswith(("/json", "+json")) and is_json(case.payload)):
        same((data, in_base64), (text(case.payload), None), "data")  # to the letter
    elif says_utf8(case) and (kind.startswith("text/") or kind.endswith(("/xml", "+xml"))) and is_utf8(case.payload):
        same((json.loads(data), in_base64), (text(case.payload), None), "data")
    else:
        same((data, base64.b64decode(in_base64, validate=True)), (None, case.payload), "data")
    same_headers(case, fields, same_attributes(case, attributes))


# --- Debezium ---

def number_or_text(value):
    """A placement with :number."""
    if value in ("true", "false") or (value and re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", value)):
        return json.loads(value)
    return value


def timestamp(case):
    at = EPOCH + case.created_at * MICROSECOND
    fraction = f".{at.microsecond:06d}".rstrip("0") if at.microsecond else ""
    return at.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


COLUMNS = {"id", "type", "aggregatetype", "timestamp"}


def column(case, name):
    return {"id": case.id, "type": case.event_type, "aggregatetype": case.aggregate_type, "timestamp": timestamp(case)}.get(name, case.headers.get(name))


def is_text(case):
    kind = (case.content_type or "application/json").split(";")[0].strip(" \t\n")
    return case.content_type is None or ((kind.startswith("text/") or kind.endswith(("json", "xml"))) and is_utf8(case.payload))


def without_nothing(value):
    """What Debezium leaves out of an expanded payload, and what it fills in."""
    if isinstance(value, dict):
        return {name: without_nothing(member) for name, member in value.items() if member is not None and member != []}
    if isinstance(value, list):
        return [without_nothing(element) for element in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


expanded = collections.Counter()


def same_value(case, value):
    if case.payload is None:
        same(value, None, "payload")
    elif not is_text(case):
        same(base64.b64decode(value, validate=True), case.payload, "payload")
    elif not isinstance(value, str):
        same("table.expand.json.payload" in case.options, True, "expanded")
        expanded["expanded"] += 1
        original = json.loads(text(case.payload))
        same(without_nothing(value), without_nothing(original), "payload")
        # As what they are, too: 1 is not 1.0.
        same(json.dumps(without_nothing(value), sort_keys=True), json.dumps(without_nothing(original), sort_keys=True), "payload")
    else:
        expanded["text"] += 1
        same(value, text(case.payload), "payload")


def read_debezium(case):
    placed = [(part.split(":") + [part.split(":")[0], ""])[:4] if part.count(":") == 1 else (part.split(":") + [""])[:4]
              for part in case.options.get("table.fields.additional.placement", "").split(",") if part]
    in_headers = [(name, alias, kind) for name, place, alias, kind in placed if place == "header"]
    in_envelope = [(name, alias, kind) for name, place, alias, kind in placed if place == "envelope"]
    all_headers = case.options.get("event.headers") != "placed"
    compact = case.redis and case.options.get("message.format") != "extended"
    own = {name for name, _, _, _ in placed if name not in COLUMNS}
    # --- refused ---
    error = ""
    partition = -1
    if not compact:
        for name, place, _, _ in placed:
            if place == "partition" and name in case.headers:
                if re.fullmatch("[0-9]+", case.headers[name]) and int(case.headers[name]) < 2 ** 31:
                    partition = int(case.headers[name])
                else:
                    error = "INVALID_PARTITION"
        for header in case.headers:
            # Where names are written in upper case, that is who has it.
            written = (lambda name: name.upper()) if case.redis else (lambda name: name)
            if all_headers and header not in own and any(written(alias) == written(header) for _, alias, _ in in_headers):
                error = error or "HEADER_NAME_TAKEN"
    same(case.error, error, "refused")
    if error:
        return
    same(case.partition, partition, "partition")
    # --- key and value ---
    json_key = case.options.get("key.converter") == "json"
    json_value = bool(in_envelope) or "table.expand.json.payload" in case.options or case.options.get("value.converter") == "json"
    json_headers = case.options.get("header.converter") == "json"
    fields = list(case.fields)
    key, value = case.key, case.body
    if compact:
        same(len(fields), 1, "fields")
        (name, value), fields = fields[0], []
        key = name.encode()
    elif case.redis:
        found = dict(fields[:2])
        key, value = found["key"], found["value"]
        fields = fields[2:]
    if json_key:
        same(json.loads(text(key)), case.aggregate_id, "key")
    else:
        same(text(key), case.aggregate_id if case.aggregate_id is not None or not case.redis else "default", "key")
    blank = case.payload is None or (is_text(case) and all(ord(c) <= 32 for c in text(case.payload)))
    if case.options.get("route.tombstone.on.empty.payload") == "true" and blank:
        same(value, b"default" if case.redis else None, "payload")
    elif json_value:
        document = json.loads(text(value), object_pairs_hook=members)
        if in_envelope:
            same(list(document), ["payload"] + [alias for _, alias, _ in in_envelope], "members of the envelope")
            for name, alias, kind in in_envelope:
                expected = column(case, name)
                same(document[alias], number_or_text(expected) if kind else expected, alias)
            document = document["payload"]
        same_value(case, document)
    else:
        same(value, b"default" if case.redis and case.payload is None else case.payload, "payload")
    if compact:
        return
    # --- headers, in their order ---
    expected = [("id", case.id, "")] + [(alias, column(case, name), kind) for name, alias, kind in in_headers]
    if all_headers:
        expected += [(name, value, "") for name, value in case.headers.items() if name not in own]
    same(len(fields), len(expected), "number of headers")
    for (name, found), (wanted, value, kind) in zip(fields, expected):
        upper = "".join(c.upper() if c < "\x80" else c for c in wanted)
        same(name, upper if case.redis else wanted, "name of a header")
        if json_headers:
            same(json.loads(text(found)), number_or_text(value) if kind else value, wanted)
        else:
            same(text(found), value, wanted)


READERS = {"outbox": read_outbox, "payload": read_payload, "cloudevents": read_cloudevents, "cloudevents-json": read_cloudevents_json,
           "debezium": read_debezium}
count = wrong = 0
refused = collections.Counter()
with open(sys.argv[1], encoding="ascii") as file:
    for line in file:
        raw = json.loads(line)
        count += 1
        refused[raw["error"]] += 1
        try:
            READERS[raw["format"]](Case(raw))
        except (Different, ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
            wrong += 1
            if wrong <= 10:
                print(f"{raw['format']} for {raw['wrapper']}, seed {raw['seed']}, {raw['options']}: {type(problem).__name__}: {problem}")
print(f"{count} records of {len(READERS)} formats, {wrong} wrong; refused: {dict(refused)}; payloads: {dict(expanded)}")
# What is never refused, and never expanded, is not looked at here.
enough = count < 1000 or (len(refused) == 5 and all(expanded[kind] > 0 for kind in ("expanded", "text")))
sys.exit(0 if wrong == 0 and count > 0 and enough else 1)
