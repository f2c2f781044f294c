import os
from cases import *
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "HOST": os.environ["PGHOST"],
                           "PORT": os.environ["PGPORT"], "USER": os.environ["PGUSER"]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True)
django.setup()

from django.db import connection, transaction
from psycopg.types.json import Json, Jsonb
from django_models import Event, Order, Shipment


# page: emit
def place_order(customer):
    with transaction.atomic():
        order = Order.objects.create(customer=customer)
        event = Event.objects.create(aggregate_type="order", aggregate_id=order.id, event_type="order.placed",
                                     payload={"customer": customer})
    return order, event
# page end


def emit(function, *values):
    # page: function
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT outbox.{function}({', '.join(['%s'] * len(values))})", values)
        return {"id": str(cursor.fetchone()[0])}
    # page end


def placed():
    order, event = place_order(CUSTOMER)
    return {"order": order.id, "id": str(event.id)}


def rolled_back():
    def run():
        with transaction.atomic():
            Order.objects.create(customer=CUSTOMER)
            emit("emit", "order", 1, "rolled.back", Jsonb(OBJECT))
            raise Undo
    return fails(run)


def new_event(event_type, **more):
    return Event(aggregate_type="order", aggregate_id="7", event_type=event_type, payload=OBJECT, **more)


def entity():
    event = new_event("entity", headers=HEADERS)
    with transaction.atomic():
        event.save()
    return {"id": str(event.id)}


def entity_rolled_back():
    def run():
        with transaction.atomic():
            new_event("entity.rolled.back").save()
            raise Undo
    return fails(run)


def savepoint():
    with transaction.atomic():
        emit("emit", "order", 1, "savepoint.outer", Jsonb(OBJECT))
        try:
            with transaction.atomic():
                emit("emit", "order", 1, "savepoint.inner", Jsonb(OBJECT))
                raise Undo
        except Undo:
            pass


def many():
    with transaction.atomic():
        Event.objects.bulk_create(Event(aggregate_type="order", aggregate_id=n, event_type="many", payload={"n": n}) for n in (1, 2, 3))


def repeated():
    with transaction.atomic():
        for n in range(1, 8):
            emit("emit", "order", n, "repeated", Jsonb({"n": n}))


def rows():
    shipment = Shipment.objects.create(state="sent")
    shipment.state = "lost"
    shipment.save()
    shipment.delete()


def sees_own():
    # page: test
    with transaction.atomic():                     # TestCase does this around each test
        emit("emit", "order", 1, "unseen", Jsonb(OBJECT))
        new_event("unseen").save()
        emitted = list(Event.objects.filter(event_type="unseen"))
        transaction.set_rollback(True)
    # page end
    return {"counts": [len(emitted), Event.objects.count()]}


def saved_twice():
    with transaction.atomic():
        event = new_event("saved.twice")
        event.save()
        event.topic = "x"
        event.save()


def execute(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)


diag = lambda error: error.__cause__.diag
case("placed", placed)
case("commit_fails", lambda: fails(lambda: place_order(NOBODY)))
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
refused("refused_null", lambda: emit("emit", "order", 1, "refused", None), diag)
refused("refused_twice", lambda: emit("emit", "order", 1, "refused", TWICE), diag)
refused("refused_update", lambda: execute("UPDATE outbox.event SET event_type = 'x'"), diag)
case("goes_on", lambda: emit("emit", "order", 1, "goes.on", Jsonb(OBJECT)))
refused("trap_saved_twice", saved_twice, diag)
