package shop;

import com.fasterxml.jackson.databind.JsonNode;
import io.debezium.outbox.quarkus.ExportedEvent;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.event.Event;
import jakarta.inject.Inject;
import jakarta.persistence.EntityManager;
import jakarta.transaction.Transactional;
import java.util.List;
import java.util.Map;

/** The service of the extension's guide: an order is saved and its event fired, in one transaction. */
@ApplicationScoped
public class Orders {
    @Inject EntityManager entities;
    @Inject Event<ExportedEvent<?, ?>> events;

    @Transactional
    public String place(String customer, String type, JsonNode payload, Map<String, Object> fields) {
        Order order = new Order();
        order.customer = customer;
        entities.persist(order);
        String key = String.valueOf(order.id);
        events.fire(new OrderEvent(key, type, payload, fields));
        return key;
    }

    @Transactional
    public void change(String key, String type, List<JsonNode> payloads) {
        for (JsonNode payload : payloads) {
            events.fire(new OrderEvent(key, type, payload, Map.of()));
        }
    }

    @Transactional
    public void undo(String key, String type, JsonNode payload) {
        events.fire(new OrderEvent(key, type, payload, Map.of()));
        entities.flush();
        throw new IllegalStateException("undone");
    }
}
