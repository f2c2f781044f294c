package shop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.NullNode;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Scope;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import jakarta.inject.Inject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Prints a line of JSON for each thing that it did, which test/clients/quarkus.pl judges. Argument: the value of the column tenant, where there is one. */
@QuarkusMain
public class Shop implements QuarkusApplication {
    static final String CUSTOMER = "Zoë \"Z\" O'Neil", NOBODY = "nobody";

    @Inject Orders orders;
    @Inject ObjectMapper json;
    @Inject Tracer tracer;

    void report(String did, Map<String, ?> what) throws Exception {
        Map<String, Object> line = new TreeMap<>(what);
        line.put("case", did);
        System.out.write((json.writeValueAsString(line) + "\n").getBytes("UTF-8"));
        System.out.flush();
    }

    interface Run { void run() throws Exception; }

    void fails(String did, Run run) throws Exception {
        try {
            run.run();
        } catch (Exception error) {
            report(did, Map.of("error", error.getClass().getSimpleName()));
            return;
        }
        report(did, Map.of("error", "none"));
    }

    @Override
    public int run(String... arguments) throws Exception {
        Map<String, Object> fields = arguments.length > 0 ? Map.of("tenant", arguments[0]) : Map.of();
        JsonNode payload = json.readTree("{\"customer\": \"Zoë \\\"Z\\\" O'Neil\", \"total\": 129.97}");

        Span request = tracer.spanBuilder("POST /orders").startSpan();
        try (Scope scope = request.makeCurrent()) {
            String key = orders.place(CUSTOMER, "order.placed", payload, fields);
            report("placed", Map.of("key", key, "trace", request.getSpanContext().getTraceId()));
        } finally {
            request.end();
        }
        List<JsonNode> lines = new ArrayList<>();
        for (int n = 1; n <= 20; n++) {
            lines.add(json.createObjectNode().put("n", n));
        }
        orders.change("9007199254740993", "order.changed", lines);
        orders.change("größe 1", "order.text", List.of(json.getNodeFactory().textNode("a text")));
        orders.change("long", "order.long", List.of(json.createObjectNode().put("x", "ü".repeat(100_000))));
        List<JsonNode> nothing = new ArrayList<>();
        nothing.add(null);
        orders.change("gone", "order.deleted", nothing);
        orders.change("null", "order.null", List.of(NullNode.getInstance()));
        fails("rolled_back", () -> orders.undo("undone", "order.undone", payload));
        fails("commit_fails", () -> orders.place(NOBODY, "order.undone", payload, fields));
        orders.change("last", "order.last", List.of(payload));
        report("done", Map.of());
        return 0;
    }
}
