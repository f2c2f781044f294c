import java.io.StringWriter;
import java.sql.DriverManager;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import liquibase.CatalogAndSchema;
import liquibase.Liquibase;
import liquibase.command.CommandScope;
import liquibase.database.Database;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.ClassLoaderResourceAccessor;
import org.flywaydb.core.Flyway;

/** What Liquibase and Flyway make of a database that has the extension, one question a call: for test/clients/migrations.pl. */
class Migrations extends Cases {
    static Database database() throws Exception {
        var connection = DriverManager.getConnection(System.getenv("JDBC_URL"), System.getenv("PGUSER"), "");
        return DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
    }

    /** Names of what `liquibase generate-changelog`, and so diff-changelog, has in these schemas. */
    static Object liquibase(String... schemas) throws Exception {
        var database = database();
        List<CatalogAndSchema> all = new ArrayList<>();
        for (String schema : schemas) all.add(new CatalogAndSchema(null, schema));
        var control = new liquibase.snapshot.SnapshotControl(database);
        var snapshot = liquibase.snapshot.SnapshotGeneratorFactory.getInstance()
            .createSnapshot(all.toArray(new CatalogAndSchema[0]), database, control);
        List<String> lines = new ArrayList<>();
        for (var table : snapshot.get(liquibase.structure.core.Table.class)) lines.add(table.getSchema().getName() + "." + table.getName());
        for (var view : snapshot.get(liquibase.structure.core.View.class)) lines.add(view.getSchema().getName() + "." + view.getName());
        database.close();      // what it has read is locked till then
        return Map.of("lines", lines);
    }

    static Object dropAll(String schema) throws Exception {
        try (var liquibase = new Liquibase("none.xml", new ClassLoaderResourceAccessor(), database())) {
            liquibase.dropAll(new CatalogAndSchema(null, schema));
        }
        return null;
    }

    static Object clean(String... schemas) {
        Flyway.configure().dataSource(System.getenv("JDBC_URL"), System.getenv("PGUSER"), "").schemas(schemas).cleanDisabled(false).load().clean();
        return null;
    }

    public static void main(String[] questions) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        System.setProperty("liquibase.analytics.enabled", "false");      // or it calls home, and waits
        for (String question : questions) {
            switch (question) {
                case "liquibase" -> test(question, () -> liquibase("public"));
                case "liquibase_all" -> test(question, () -> liquibase("public", "outbox", "outbox_internal"));
                case "liquibase_drop_all" -> refused(question, () -> dropAll("outbox"));
                case "liquibase_drop_internal" -> refused(question, () -> dropAll("outbox_internal"));
                case "flyway_clean" -> test(question, () -> clean("public"));
                case "flyway_clean_outbox" -> refused(question, () -> clean("outbox"));
                case "flyway_clean_internal" -> refused(question, () -> clean("outbox_internal"));
                default -> throw new IllegalArgumentException(question);
            }
        }
    }
}
