from cases import *
import sqlalchemy as sa
from sqlalchemy import FetchedValue, func, select, text
from sqlalchemy.dialects.postgresql import JSON, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from datetime import datetime
from uuid import UUID as Uuid

engine = sa.create_engine("postgresql+psycopg://")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


class Shipment(Base):
    __tablename__ = "shipment"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]


# page: entity
class Event(Base):
    __tablename__ = "event"
    __table_args__ = {"schema": "outbox", "info": {"is_view": True}}   # info: for Alembic, see Migration tools
    id: Mapped[Uuid] = mapped_column(primary_key=True, server_default=FetchedValue())
    aggregate_type: Mapped[str]
    aggregate_id: Mapped[str | None]
    event_type: Mapped[str]
    payload: Mapped[dict | None] = mapped_column(JSONB(none_as_null=True))
    headers: Mapped[dict | None] = mapped_column(JSONB(none_as_null=True))
    topic: Mapped[str | None]
# page end


# page: emit
def place_order(engine, customer):
    with Session(engine, expire_on_commit=False) as session, session.begin():
        order = Order(customer=customer)
        session.add(order)
        session.flush()                                        # the order has its number now
        event = session.scalar(select(func.outbox.emit(
            "order", order.id, "order.placed", sa.literal({"customer": customer}, JSONB))))
    return order, event
# page end


def emit(function, *values, session=None):
    statement = select(getattr(func.outbox, function)(*values))
    if session:
        return {"id": str(session.scalar(statement))}
    with Session(engine) as session, session.begin():
        return {"id": str(session.scalar(statement))}


def obj(value=None):
    return sa.literal(OBJECT if value is None else value, JSONB)


def placed():
    order, event = place_order(engine, CUSTOMER)
    return {"order": order.id, "id": str(event)}


def rolled_back():
    def run():
        with Session(engine) as session, session.begin():
            session.add(Order(customer=CUSTOMER))
            emit("emit", "order", 1, "rolled.back", obj(), session=session)
            raise Undo
    return fails(run)


def entity():
    with Session(engine, expire_on_commit=False) as session, session.begin():
        event = Event(aggregate_type="order", aggregate_id="7", event_type="entity", payload=OBJECT, headers=HEADERS)
        session.add(event)
    return {"id": str(event.id)}


def entity_rolled_back():
    def run():
        with Session(engine) as session, session.begin():
            session.add(Event(aggregate_type="order", aggregate_id="7", event_type="entity.rolled.back", payload=OBJECT))
            session.flush()
            raise Undo
    return fails(run)


def savepoint():
    with Session(engine) as session, session.begin():
        emit("emit", "order", 1, "savepoint.outer", obj(), session=session)
        try:
            with session.begin_nested():
                emit("emit", "order", 1, "savepoint.inner", obj(), session=session)
                raise Undo
        except Undo:
            pass


def many():
    with Session(engine) as session, session.begin():
        # page: many
        session.execute(select(func.outbox.emit_many(sa.literal(MANY, JSONB))))
        # page end


def repeated():
    with Session(engine) as session, session.begin():
        for n in range(1, 8):
            emit("emit", "order", n, "repeated", obj({"n": n}), session=session)


def rows():
    with Session(engine) as session:
        shipment = Shipment(state="sent")
        session.add(shipment)
        session.commit()
        shipment.state = "lost"
        session.commit()
        session.delete(shipment)
        session.commit()


def sees_own():
    # page: test
    with Session(engine) as session:                           # what the test calls adds to this session
        session.add(Event(aggregate_type="order", aggregate_id="7", event_type="unseen", payload=OBJECT))
        emit("emit", "order", 1, "unseen", obj(), session=session)
        emitted = session.scalars(select(Event)).all()
        session.rollback()
    # page end
    with Session(engine) as session:
        return {"counts": [len(emitted), len(session.scalars(select(Event)).all())]}


def merge():
    with Session(engine, expire_on_commit=False) as session, session.begin():
        event = session.merge(Event(id=UUID, aggregate_type="order", event_type="merged", payload=OBJECT))
    return {"id": str(event.id)}


def expired():
    with Session(engine) as session:                           # expire_on_commit is on by default
        event = Event(aggregate_type="order", event_type="expired", payload=OBJECT)
        session.add(event)
        session.commit()
        try:
            return {"read": event.event_type}
        except sa.orm.exc.ObjectDeletedError:
            return {"read": "ObjectDeletedError"}


def execute(sql):
    with engine.begin() as connection:
        connection.execute(text(sql))


diag = lambda error: error.orig.diag
case("placed", placed)
case("commit_fails", lambda: fails(lambda: place_order(engine, NOBODY)))
case("rolled_back", rolled_back)
case("entity", entity)
case("entity_rolled_back", entity_rolled_back)
case("savepoint", savepoint)
case("key_number", lambda: emit("emit", "order", NUMBER, "key.number", obj()))
case("key_uuid", lambda: emit("emit", "order", UUID, "key.uuid", obj()))
case("key_text", lambda: emit("emit", "order", TEXT, "key.text", obj()))
case("key_null", lambda: emit("emit", "order", sa.null(), "key.null", obj()))
case("as_sent", lambda: emit("emit", "order", 1, "as.sent", AS_SENT))
case("text", lambda: emit("emit_text", "order", 1, "text", LINES))
case("bytes", lambda: emit("emit_bytes", "order", 1, "bytes", BYTES))
case("tombstone", lambda: emit("emit_tombstone", "order", 1, "tombstone"))
case("nulls", lambda: emit("emit", "order", 1, "nulls", obj(), None, None, None))
case("all", lambda: emit("emit", "order", 1, "all", obj(), sa.literal(HEADERS, JSONB), "elsewhere", HOUR_AGO))
case("many", many)
case("repeated", repeated)
case("row", rows)
case("sees_own", sees_own)
refused("refused_null", lambda: emit("emit", "order", 1, "refused", None), diag)
refused("refused_twice", lambda: emit("emit", "order", 1, "refused", TWICE), diag)
refused("refused_update", lambda: execute("UPDATE outbox.event SET event_type = 'x'"), diag)
case("goes_on", lambda: emit("emit", "order", 1, "goes.on", obj()))
case("trap_merge", merge)
case("trap_expired", expired)
