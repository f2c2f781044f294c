from cases import *
import psycopg
from psycopg.types.json import Json, Jsonb

conn = psycopg.connect(autocommit=True)


# page: emit
def place_order(conn, customer):
    with conn.transaction():
        order, = conn.execute("INSERT INTO orders (customer) VALUES (%s) RETURNING id", [customer]).fetchone()
        event, = conn.execute("SELECT outbox.emit('order', %s, 'order.placed', %s)",
                              [order, Jsonb({"customer": customer})]).fetchone()
    return order, event
# page end


def emit(function, *values, casts=""):
    places = ", ".join(["%s"] * len(values)) + casts
    return {"id": str(conn.execute(f"SELECT outbox.{function}({places})", values).fetchone()[0])}


def placed():
    order, event = place_order(conn, CUSTOMER)
    return {"order": order, "id": str(event)}


def rolled_back():
    def run():
        with conn.transaction():
            conn.execute("INSERT INTO orders (customer) VALUES (%s)", [CUSTOMER])
            emit("emit", "order", 1, "rolled.back", Jsonb(OBJECT))
            raise Undo
    return fails(run)


def view(event_type):
    # page: view
    conn.execute("INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, headers)"
                 " VALUES (%s, %s, %s, %s, %s) RETURNING id",
                 ["order", "7", event_type, Jsonb(OBJECT), Jsonb(HEADERS)])
    # page end


def entity():
    with conn.transaction():
        view("entity")
        return {"id": str(conn.execute("SELECT id FROM outbox.event").fetchone()[0])}


def entity_rolled_back():
    def run():
        with conn.transaction():
            view("entity.rolled.back")
            raise Undo
    return fails(run)


def savepoint():
    with conn.transaction():
        emit("emit", "order", 1, "savepoint.outer", Jsonb(OBJECT))
        try:
            with conn.transaction():
                emit("emit", "order", 1, "savepoint.inner", Jsonb(OBJECT))
                raise Undo
        except Undo:
            pass


def many():
    # page: many
    conn.execute("SELECT outbox.emit_many(%s)", [Jsonb(MANY)])
    # page end


def repeated():
    with conn.transaction():
        for n in range(1, 8):
            conn.execute("SELECT outbox.emit('order', %s, 'repeated', %s)", [n, Jsonb({"n": n})], prepare=True)


def rows():
    for sql in ("INSERT INTO shipment (state) VALUES (%s)", "UPDATE shipment SET state = %s", "DELETE FROM shipment WHERE state = %s"):
        conn.execute(sql, ["sent" if sql[0] == "I" else "lost"])


def sees_own():
    counts = []
    with conn.transaction(force_rollback=True):
        emit("emit", "order", 1, "unseen", Jsonb(OBJECT))
        view("unseen")
        counts.append(conn.execute("SELECT count(*) FROM outbox.event").fetchone()[0])
    counts.append(conn.execute("SELECT count(*) FROM outbox.event").fetchone()[0])
    return {"counts": counts}


case("placed", placed)
case("commit_fails", lambda: fails(lambda: place_order(conn, NOBODY)))
case("rolled_back", rolled_back)
case("entity", entity)
case("entity_rolled_back", entity_rolled_back)
case("savepoint", savepoint)
case("key_number", lambda: emit("emit", "order", NUMBER, "key.number", Jsonb(OBJECT)))
case("key_uuid", lambda: emit("emit", "order", UUID, "key.uuid", Jsonb(OBJECT)))
case("key_text", lambda: emit("emit", "order", TEXT, "key.text", Jsonb(OBJECT)))
case("key_null", lambda: emit("emit", "order", None, "key.null", Jsonb(OBJECT)))
case("as_sent", lambda: emit("emit", "order", 1, "as.sent", Json(AS_SENT, dumps=str)))
case("text", lambda: emit("emit_text", "order", 1, "text", LINES))
case("bytes", lambda: emit("emit_bytes", "order", 1, "bytes", BYTES))
case("tombstone", lambda: emit("emit_tombstone", "order", 1, "tombstone"))
case("nulls", lambda: emit("emit", "order", 1, "nulls", Jsonb(OBJECT), None, None, None))
case("all", lambda: emit("emit", "order", 1, "all", Jsonb(OBJECT), Jsonb(HEADERS), "elsewhere", HOUR_AGO))
case("many", many)
case("repeated", repeated)
case("row", rows)
case("sees_own", sees_own)
refused("refused_null", lambda: emit("emit", "order", 1, "refused", None), lambda e: e.diag)
refused("refused_twice", lambda: emit("emit", "order", 1, "refused", TWICE), lambda e: e.diag)
refused("refused_update", lambda: conn.execute("UPDATE outbox.event SET event_type = 'x'"), lambda e: e.diag)
case("goes_on", lambda: emit("emit", "order", 1, "goes.on", Jsonb(OBJECT)))
case("trap_json_string", lambda: emit("emit", "order", 1, "json.string", '{"n": 1}'))
