# What the consumer does about an event: it is in the transaction that it is called in, and no unique key protects it.
import json


def handle(conn, payload):
    if payload is None:  # a tombstone
        return
    conn.execute("INSERT INTO ledger (n) VALUES (%s)", [json.loads(payload)["n"]])
