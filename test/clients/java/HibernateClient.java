import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.hibernate.annotations.Immutable;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.cfg.Configuration;
import org.hibernate.type.SqlTypes;

class HibernateClient extends Cases {
    @Entity(name = "Order") @Table(name = "orders")
    static class Order {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String customer;

        Order() { }

        Order(String customer) {
            this.customer = customer;
        }
    }

    @Entity(name = "Shipment") @Table(name = "shipment")
    static class Shipment {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String state;
    }

    // page: entity
    @Entity(name = "Event") @Table(schema = "outbox", name = "event")
    @Immutable                                   // or a payload that looks changed at the flush is sent as an UPDATE
    static class Event {
        @Id @GeneratedValue(strategy = GenerationType.UUID) UUID id;
        @Column(name = "aggregate_type") String aggregateType;
        @Column(name = "aggregate_id") String aggregateId;
        @Column(name = "event_type") String eventType;
        @JdbcTypeCode(SqlTypes.JSON) Map<String, Object> payload;   // or a class of yours; or a String that is JSON
        @JdbcTypeCode(SqlTypes.JSON) Map<String, String> headers;
        String topic;

        Event() { }

        Event(String aggregateType, Object aggregateId, String eventType, Map<String, Object> payload) {
            this.aggregateType = aggregateType;
            this.aggregateId = String.valueOf(aggregateId);
            this.eventType = eventType;
            this.payload = payload;
        }
    }
    // page end

    // A payload without equals(): Hibernate cannot tell that it is the same.
    public static class Payload {
        public int n = 1;
        public String t = "ü \"q\" \\";
    }

    @Entity(name = "MutableEvent") @Table(schema = "outbox", name = "event")
    static class MutableEvent {
        @Id @GeneratedValue(strategy = GenerationType.UUID) UUID id;
        @Column(name = "aggregate_type") String aggregateType = "order";
        @Column(name = "event_type") String eventType = "refused";
        @JdbcTypeCode(SqlTypes.JSON) Payload payload = new Payload();
    }

    @Entity(name = "StringEvent") @Table(schema = "outbox", name = "event") @Immutable
    static class StringEvent {
        @Id @GeneratedValue(strategy = GenerationType.UUID) UUID id;
        @Column(name = "aggregate_type") String aggregateType = "order";
        @Column(name = "event_type") String eventType;
        @JdbcTypeCode(SqlTypes.JSON) String payload = OBJECT;
    }

    @Entity(name = "ObjectEvent") @Table(schema = "outbox", name = "event") @Immutable
    static class ObjectEvent {
        @Id @GeneratedValue(strategy = GenerationType.UUID) UUID id;
        @Column(name = "aggregate_type") String aggregateType = "order";
        @Column(name = "event_type") String eventType = "refused";
        @JdbcTypeCode(SqlTypes.JSON) Object payload = Map.of("n", 1);
    }

    static EntityManagerFactory factory;

    static <T> T transaction(Function<EntityManager, T> work) {
        try (EntityManager em = factory.createEntityManager()) {
            em.getTransaction().begin();
            try {
                T result = work.apply(em);
                em.getTransaction().commit();
                return result;
            } catch (RuntimeException error) {
                if (em.getTransaction().isActive()) em.getTransaction().rollback();
                throw error;
            }
        }
    }

    // page: emit
    static UUID placeOrder(EntityManager em, String customer) {      // in your @Transactional method
        Order order = new Order(customer);
        em.persist(order);
        Event event = new Event("order", order.id, "order.placed", Map.of("customer", customer));
        em.persist(event);                                           // persist, not merge
        return event.id;
    }
    // page end

    static Object emit(EntityManager em, String function, Object... values) {
        String places = "";
        for (int i = 1; i <= values.length; i++) places += (i > 1 ? ", ?" : "?") + i;
        // page: function
        var query = em.createNativeQuery("SELECT CAST(outbox." + function + "(" + places + ") AS text)", String.class);
        for (int i = 0; i < values.length; i++) query.setParameter(i + 1, values[i]);
        return query.getSingleResult();                              // not executeUpdate(): it returns the id
        // page end
    }

    static Object emit(String function, Object... values) {
        return transaction(em -> emit(em, function, values));
    }

    static Event event(String type) {
        return new Event("order", 7, type, Map.of("n", 1, "t", "ü \"q\" \\"));
    }

    static Object undone(Function<EntityManager, Object> work) {
        return fails(() -> transaction(em -> {
            work.apply(em);
            em.flush();
            throw new Undo();
        }));
    }

    static Object thrown(Function<EntityManager, Object> work) {
        try {
            transaction(work);
            return Map.of("error", "none");
        } catch (RuntimeException error) {
            return Map.of("error", error.getClass().getSimpleName());
        }
    }

    static long count(EntityManager em) {
        return em.createQuery("SELECT count(e) FROM Event e", Long.class).getSingleResult();
    }

    public static void main(String[] arguments) throws Exception {
        Logger.getLogger("org.hibernate").setLevel(Level.SEVERE);
        factory = new Configuration().addAnnotatedClass(Order.class).addAnnotatedClass(Shipment.class).addAnnotatedClass(Event.class)
            .addAnnotatedClass(MutableEvent.class).addAnnotatedClass(StringEvent.class).addAnnotatedClass(ObjectEvent.class)
            .setProperty("hibernate.connection.url", System.getenv("JDBC_URL"))
            .setProperty("hibernate.connection.username", System.getenv("PGUSER")).setProperty("hibernate.connection.password", "")
            .setProperty("hibernate.hbm2ddl.auto", "validate")
            .buildSessionFactory();
        test("placed", () -> {
            var id = transaction(em -> placeOrder(em, CUSTOMER));
            return Map.of("id", id.toString(), "order", transaction(em -> em.createQuery("SELECT max(o.id) FROM Order o", Long.class).getSingleResult()));
        });
        test("commit_fails", () -> fails(() -> transaction(em -> placeOrder(em, NOBODY))));
        test("rolled_back", () -> undone(em -> {
            em.persist(new Order(CUSTOMER));
            return emit(em, "emit", "order", 1, "rolled.back", OBJECT);
        }));
        test("entity", () -> transaction(em -> {
            var event = event("entity");
            event.headers = Map.of("tenant", "acme", "who", "Jürgen");
            em.persist(event);
            return event.id;
        }));
        test("entity_rolled_back", () -> undone(em -> { em.persist(event("entity.rolled.back")); return null; }));
        test("savepoint", () -> transaction(em -> {
            em.unwrap(org.hibernate.Session.class).doWork(connection -> {
                emit(em, "emit", "order", 1, "savepoint.outer", OBJECT);
                var savepoint = connection.setSavepoint();
                emit(em, "emit", "order", 1, "savepoint.inner", OBJECT);
                connection.rollback(savepoint);
            });
            return null;
        }));
        test("key_number", () -> emit("emit", "order", NUMBER, "key.number", OBJECT));
        test("key_uuid", () -> emit("emit", "order", KEY, "key.uuid", OBJECT));
        test("key_text", () -> emit("emit", "order", TEXT, "key.text", OBJECT));
        test("key_null", () -> emit("emit", "order", null, "key.null", OBJECT));
        test("as_sent", () -> emit("emit", "order", 1, "as.sent", AS_SENT));
        test("text", () -> emit("emit_text", "order", 1, "text", LINES));
        test("bytes", () -> emit("emit_bytes", "order", 1, "bytes", BYTES));
        test("tombstone", () -> emit("emit_tombstone", "order", 1, "tombstone"));
        test("nulls", () -> emit("emit", "order", 1, "nulls", OBJECT, null, null, null));
        test("all", () -> emit("emit", "order", 1, "all", OBJECT, HEADERS, "elsewhere", HOUR_AGO));
        test("many", () -> transaction(em -> {
            for (int n = 1; n <= 3; n++) em.persist(new Event("order", n, "many", Map.of("n", n)));
            return null;
        }));
        test("repeated", () -> transaction(em -> {
            for (long n = 1; n <= 7; n++) emit(em, "emit", "order", n, "repeated", "{\"n\": " + n + "}");
            return null;
        }));
        test("row", () -> {
            Long id = transaction(em -> {
                var shipment = new Shipment();
                shipment.state = "sent";
                em.persist(shipment);
                return shipment.id;
            });
            transaction(em -> em.find(Shipment.class, id).state = "lost");
            transaction(em -> {
                em.remove(em.find(Shipment.class, id));
                return null;
            });
            return null;
        });
        test("sees_own", () -> {
            long[] inside = {0};
            undone(em -> {
                emit(em, "emit", "order", 1, "unseen", OBJECT);
                em.persist(event("unseen"));
                return inside[0] = count(em);
            });
            return Map.of("counts", List.of(inside[0], transaction(HibernateClient::count)));
        });
        refused("refused_null", () -> emit("emit", "order", 1, "refused", null));
        refused("refused_twice", () -> emit("emit", "order", 1, "refused", TWICE));
        refused("refused_update", () -> transaction(em -> em.createNativeQuery("UPDATE outbox.event SET event_type = 'x'").executeUpdate()));
        test("goes_on", () -> emit("emit", "order", 1, "goes.on", OBJECT));
        test("trap_string", () -> transaction(em -> {
            var event = new StringEvent();
            event.eventType = "string";
            em.persist(event);
            return event.id;
        }));
        refused("trap_dirty", () -> transaction(em -> {
            em.persist(new MutableEvent());
            return null;
        }));
        test("trap_merge", () -> thrown(em -> {
            var event = event("merged");
            event.id = UUID.randomUUID();
            return em.merge(event);
        }));
        test("trap_object", () -> thrown(em -> {
            em.persist(new ObjectEvent());
            return null;
        }));
    }
}
