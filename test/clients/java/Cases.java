import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.postgresql.util.PSQLException;

/** What the Java programs of the ring of clients share: one line of JSON for each case, which test/clients/clients.pl judges. */
abstract class Cases {
    static final String CUSTOMER = "Zoë \"Z\" O'Neil", NOBODY = "nobody", TEXT = "a key \"ü\"";
    static final long NUMBER = 9007199254740993L;
    static final UUID KEY = UUID.fromString("0190b6f0-0000-7000-8000-000000000001");
    static final String OBJECT = "{\"n\": 1, \"t\": \"ü \\\"q\\\" \\\\\"}", AS_SENT = "{\"b\" :  1, \"a\":2}";
    static final String HEADERS = "{\"tenant\": \"acme\", \"who\": \"Jürgen\"}";
    static final String LINES = "Größe \"42\"\nsecond line\\";
    static final byte[] BYTES = {0x00, (byte) 0xff, 0x0d, 0x0a, 0x27, 0x5c};
    static final OffsetDateTime HOUR_AGO = OffsetDateTime.now().minusHours(1);
    static final String MANY = "[1, 2, 3]".replaceAll("(\\d)",
        "{\"aggregate_type\": \"order\", \"aggregate_id\": \"$1\", \"event_type\": \"many\", \"payload\": {\"n\": $1}}");
    static final String TWICE = quoted(OBJECT);

    static String quoted(String value) {
        try {
            return new ObjectMapper().writeValueAsString(value);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    interface Run {
        Object run() throws Exception;
    }

    static class Undo extends RuntimeException { }

    static void report(String name, Map<String, Object> what) throws Exception {
        Map<String, Object> line = new LinkedHashMap<>(what);
        line.put("case", name);
        System.out.write((new ObjectMapper().writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    /** What is not a map of things to report is the id of the event. */
    @SuppressWarnings("unchecked")
    static void test(String name, Run run) throws Exception {
        try {
            Object what = run.run();
            report(name, what instanceof Map ? (Map<String, Object>) what : what == null ? Map.of() : Map.of("id", what.toString()));
        } catch (Exception error) {
            report(name, Map.of("failed", cut(error)));
        }
    }

    static String cut(Throwable error) {
        String said = String.valueOf(error);
        return said.substring(0, Math.min(500, said.length()));
    }

    static Object fails(Run run) {
        try {
            run.run();
        } catch (Exception error) {
            return null;
        }
        throw new IllegalStateException("it did not fail");
    }

    static void refused(String name, Run run) throws Exception {
        try {
            run.run();
            report(name, Map.of("failed", "it was not refused"));
        } catch (Exception error) {
            Throwable cause = error;
            while (cause != null && !(cause instanceof PSQLException)) cause = cause.getCause();
            if (cause == null) {
                report(name, Map.of("failed", cut(error)));
                return;
            }
            var said = ((PSQLException) cause).getServerErrorMessage();
            Map<String, Object> what = new LinkedHashMap<>();
            what.put("sqlstate", said.getSQLState());
            what.put("message", said.getMessage());
            what.put("hint", said.getHint());
            report(name, what);
        }
    }
}
