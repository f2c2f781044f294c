"""What the Python programs of the ring of clients share: one line of JSON for each case, which test/clients/clients.pl judges."""
import json
import uuid
from datetime import datetime, timedelta, timezone

CUSTOMER = 'Zoë "Z" O\'Neil'
NOBODY = "nobody"
NUMBER = 9007199254740993
UUID = uuid.UUID("0190b6f0-0000-7000-8000-000000000001")
TEXT = 'a key "ü"'
OBJECT = {"n": 1, "t": 'ü "q" \\'}
AS_SENT = '{"b" :  1, "a":2}'
HEADERS = {"tenant": "acme", "who": "Jürgen"}
LINES = 'Größe "42"\nsecond line\\'
BYTES = b"\x00\xff\r\n'\\"
HOUR_AGO = datetime.now(timezone.utc) - timedelta(hours=1)
MANY = [{"aggregate_type": "order", "aggregate_id": str(n), "event_type": "many", "payload": {"n": n}} for n in (1, 2, 3)]
TWICE = json.dumps(json.dumps(OBJECT))


def report(case, **what):
    print(json.dumps({"case": case, **what}), flush=True)


def case(name, run):
    """run() returns what is to be reported beside the name."""
    try:
        report(name, **(run() or {}))
    except Exception as error:
        report(name, failed=f"{type(error).__name__}: {error}"[:500])


def fails(run):
    try:
        run()
    except Exception:
        return {}
    raise AssertionError("it did not fail")


def refused(name, run, diagnosis):
    """run() is to fail; diagnosis(error) is what psycopg's Diagnostic of it is."""
    try:
        run()
        report(name, failed="it was not refused")
    except Exception as error:
        diag = diagnosis(error)
        report(name, sqlstate=diag.sqlstate, message=diag.message_primary, hint=diag.message_hint)


class Undo(Exception):
    pass
