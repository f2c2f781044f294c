import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Types;
import java.util.List;
import java.util.Map;

class PgjdbcClient extends Cases {
    static Connection db;

    record Placed(long order, String event) { }

    // page: emit
    static Placed placeOrder(Connection db, String customer, String json) throws SQLException {
        db.setAutoCommit(false);
        try (var insert = db.prepareStatement("INSERT INTO orders (customer) VALUES (?) RETURNING id");
             var emit = db.prepareStatement("SELECT outbox.emit(?, ?, ?, ?)")) {
            insert.setString(1, customer);
            var order = insert.executeQuery();
            order.next();
            emit.setString(1, "order");
            emit.setLong(2, order.getLong(1));
            emit.setString(3, "order.placed");
            emit.setString(4, json);                     // published byte for byte
            var event = emit.executeQuery();             // a query: executeUpdate() fails
            event.next();
            db.commit();
            return new Placed(order.getLong(1), event.getString(1));
        } catch (SQLException error) {
            db.rollback();
            throw error;
        }
    }
    // page end

    static Object emit(String function, Object... values) throws SQLException {
        String call = "SELECT outbox." + function + "(" + "?, ".repeat(values.length - 1) + "?)";
        try (var statement = db.prepareStatement(call)) {
            for (int i = 0; i < values.length; i++) {
                if (values[i] == null) statement.setObject(i + 1, null);
                else statement.setObject(i + 1, values[i]);
            }
            var result = statement.executeQuery();
            result.next();
            return result.getString(1);
        }
    }

    static Object view(String eventType) throws SQLException {
        // page: view
        try (var insert = db.prepareStatement("INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, headers)"
                 + " VALUES (?, ?, ?, CAST(? AS jsonb), CAST(? AS jsonb)) RETURNING id")) {
            int i = 0;
            for (String value : List.of("order", "7", eventType, OBJECT, HEADERS)) insert.setString(++i, value);
            var event = insert.executeQuery();
            event.next();
            return event.getString(1);
        }
        // page end
    }

    static Object transaction(Run run, boolean commit) throws Exception {
        db.setAutoCommit(false);
        try {
            Object result = run.run();
            if (commit) db.commit(); else db.rollback();
            return result;
        } catch (Exception error) {
            db.rollback();
            throw error;
        } finally {
            db.setAutoCommit(true);
        }
    }

    static int count() throws SQLException {
        try (var statement = db.createStatement()) {
            var result = statement.executeQuery("SELECT count(*) FROM outbox.event");
            result.next();
            return result.getInt(1);
        }
    }

    static Object execute(String sql) throws SQLException {
        try (var statement = db.createStatement()) {
            statement.execute(sql);
        }
        return null;
    }

    public static void main(String[] arguments) throws Exception {
        db = DriverManager.getConnection(System.getenv("JDBC_URL"), System.getenv("PGUSER"), "");
        test("placed", () -> {
            var placed = placeOrder(db, CUSTOMER, "{\"customer\": " + quoted(CUSTOMER) + "}");
            return Map.of("order", placed.order, "id", placed.event);
        });
        test("commit_fails", () -> fails(() -> placeOrder(db, NOBODY, "{}")));
        db.setAutoCommit(true);
        test("rolled_back", () -> {
            transaction(() -> {
                execute("INSERT INTO orders (customer) SELECT name FROM customer");
                return emit("emit", "order", 1, "rolled.back", OBJECT);
            }, false);
            return null;
        });
        test("entity", () -> transaction(() -> view("entity"), true));
        test("entity_rolled_back", () -> { transaction(() -> view("entity.rolled.back"), false); return null; });
        test("savepoint", () -> {
            transaction(() -> {
                emit("emit", "order", 1, "savepoint.outer", OBJECT);
                var savepoint = db.setSavepoint();
                emit("emit", "order", 1, "savepoint.inner", OBJECT);
                db.rollback(savepoint);
                return null;
            }, true);
            return null;
        });
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
        test("many", () -> {
            // page: many
            try (var many = db.prepareStatement("SELECT outbox.emit_many(CAST(? AS jsonb))")) {
                many.setString(1, MANY);
                many.executeQuery();
            }
            // page end
            return null;
        });
        test("repeated", () -> transaction(() -> {
            for (long n = 1; n <= 7; n++) emit("emit", "order", n, "repeated", "{\"n\": " + n + "}");
            return null;
        }, true));
        test("row", () -> {
            execute("INSERT INTO shipment (state) VALUES ('sent')");
            execute("UPDATE shipment SET state = 'lost'");
            return execute("DELETE FROM shipment");
        });
        test("sees_own", () -> {
            int inside = (Integer) transaction(() -> {
                emit("emit", "order", 1, "unseen", OBJECT);
                view("unseen");
                return count();
            }, false);
            return Map.of("counts", List.of(inside, count()));
        });
        refused("refused_null", () -> emit("emit", "order", 1, "refused", null));
        refused("refused_twice", () -> emit("emit", "order", 1, "refused", TWICE));
        refused("refused_update", () -> execute("UPDATE outbox.event SET event_type = 'x'"));
        test("goes_on", () -> emit("emit", "order", 1, "goes.on", OBJECT));
        test("trap_null_string", () -> {
            try (var statement = db.prepareStatement("SELECT outbox.emit('order', '1', 'null.string', CAST(? AS jsonb), CAST(? AS jsonb))")) {
                statement.setString(1, OBJECT);
                statement.setNull(2, Types.VARCHAR);
                var result = statement.executeQuery();
                result.next();
                return result.getString(1);
            }
        });
        test("trap_execute_update", () -> fails(() -> {
            try (var statement = db.prepareStatement("SELECT outbox.emit('order', 1, 'refused', '{}')")) {
                db.setAutoCommit(false);
                return statement.executeUpdate();
            } finally {
                db.rollback();
                db.setAutoCommit(true);
            }
        }));
    }
}
