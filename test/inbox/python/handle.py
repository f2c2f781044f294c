# What the consumer does about an event: it is in the transaction that it is called in, and no unique key protects it.
import json
import os


def handle(conn, payload):
    if payload is None:  # a tombstone
        return
    if os.path.exists(os.environ["FAILS"]):  # made by the test: then this event fails, once
        os.remove(os.environ["FAILS"])
        raise RuntimeError("as the test asks")
    conn.execute("INSERT INTO ledger (n) VALUES (%s)", [json.loads(payload)["n"]])
