package hivesink.bench;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.SqlDialect;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.catalog.hive.HiveCatalog;
import org.apache.hadoop.hive.conf.HiveConf;

/**
 * Flink's Hive sink: a bounded read of a topic into a new Hive table, exactly once.
 *
 * <p>Arguments: metastore URI, bootstrap servers, topic, database.table, the table's location, checkpoint folder,
 * parallelism, seconds between checkpoints, then Kafka consumer settings as name=value.
 */
public final class FlinkHive {
    private FlinkHive() {}

    public static void main(String[] given) throws Exception {
        String metastore = given[0], servers = given[1], topic = given[2], table = given[3], location = given[4];
        String consumer = Arrays.stream(given, 8, given.length)
                .map(setting -> setting.split("=", 2))
                .map(pair -> String.format(", 'properties.%s'='%s'", pair[0], pair[1]))
                .collect(Collectors.joining());
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.newInstance()
                .inStreamingMode()
                .withConfiguration(settings(given[5], given[6], given[7]))
                .build());
        tables.executeSql(String.format(
                "CREATE TEMPORARY TABLE source (userId INT, userName STRING, ts BIGINT) WITH ('connector'='kafka', "
                        + "'topic'='%s', 'properties.bootstrap.servers'='%s', 'scan.startup.mode'='earliest-offset', "
                        + "'scan.bounded.mode'='latest-offset', 'format'='json'%s)",
                topic, servers, consumer));
        HiveConf hive = new HiveConf();
        hive.set("hive.metastore.uris", metastore);
        hive.set("fs.defaultFS", "file:///");
        tables.registerCatalog("hive", new HiveCatalog("hive", "default", hive, "2.3.10", true));
        tables.executeSql("USE CATALOG hive");
        tables.getConfig().setSqlDialect(SqlDialect.HIVE);
        tables.executeSql(String.format(
                "CREATE TABLE %s (userid INT, username STRING, ts BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET "
                        + "LOCATION '%s' TBLPROPERTIES ('parquet.compression'='SNAPPY', "
                        + "'sink.partition-commit.trigger'='process-time', 'sink.partition-commit.delay'='0s', "
                        + "'sink.partition-commit.policy.kind'='metastore,success-file')",
                table, location));
        tables.getConfig().setSqlDialect(SqlDialect.DEFAULT);
        tables.executeSql("USE CATALOG default_catalog");
        tables.executeSql(String.format(
                        "INSERT INTO hive.%s SELECT userId, userName, ts, "
                                + "DATE_FORMAT(TO_TIMESTAMP_LTZ(ts, 3), 'yyyy-MM-dd--HH') FROM source",
                        table))
                .await();
        // Whoever measures this process reads its CPU time while it lives.
        System.out.println("done");
        System.in.read();
        // The mini cluster leaves threads behind that would keep the process.
        System.exit(0);
    }

    private static Configuration settings(String checkpoints, String parallelism, String seconds) {
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", parallelism);
        settings.setString("taskmanager.numberOfTaskSlots", parallelism);
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("execution.checkpointing.interval", seconds + " s");
        settings.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        settings.setString("execution.checkpointing.dir", checkpoints);
        settings.setString("table.local-time-zone", "UTC");
        // Flink's own Parquet writer is the faster of its two.
        settings.setString("table.exec.hive.fallback-mapred-writer", "false");
        return settings;
    }
}
