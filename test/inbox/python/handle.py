# What the consumer does about an event: it is in the transaction that it is called in, and no unique key protects it.
import json
import os


def handle(conn, payload):
    if payload is None:  # a tombstone
        return
    conn.execute("INSERT INTO ledger (n) VALUES (%s)", [json.loads(payload)["n"]])
    try:
        os.remove(os.environ["FAILS"])  # made by the test: then this event fails, once
    except FileNotFoundError:
        return
    raise RuntimeError("as the test asks")
