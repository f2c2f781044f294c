import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;

/** What the consumer does about an event: it is in the connection's transaction, and no unique key protects it. */
final class Handle {
  private Handle() {}

  static void handle(Connection db, byte[] payload) throws SQLException, IOException {
    if (payload == null) { // a tombstone
      return;
    }
    if (Files.deleteIfExists(Path.of(System.getenv("FAILS")))) { // made by the test: then this event fails, once
      throw new IllegalStateException("as the test asks");
    }
    try (var insert = db.prepareStatement("INSERT INTO ledger (n) SELECT (CAST(? AS json) ->> 'n')::int")) {
      insert.setString(1, new String(payload, StandardCharsets.UTF_8));
      insert.executeUpdate();
    }
  }
}
