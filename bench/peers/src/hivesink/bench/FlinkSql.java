package hivesink.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs SQL, a statement for each line of standard input, and answers each INSERT with a line once all is committed.
 *
 * <p>Arguments: Flink's settings as name=value. {@code SET name=value} is no statement but changes one of them. Whoever
 * measures this process reads its CPU time while it lives: the end of its input ends it.
 */
public final class FlinkSql {
    private FlinkSql() {}

    public static void main(String[] given) throws Exception {
        Configuration settings = new Configuration();
        for (String setting : given) {
            String[] pair = setting.split("=", 2);
            settings.setString(pair[0], pair[1]);
        }
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.newInstance()
                .inStreamingMode()
                .withConfiguration(settings)
                .build());
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.startsWith("SET ")) {
                String[] pair = line.substring(4).split("=", 2);
                tables.getConfig().set(pair[0], pair[1]);
            } else if (line.startsWith("INSERT ")) {
                tables.executeSql(line).await();
                System.out.println("done");
            } else {
                tables.executeSql(line);
            }
        }
        // The mini cluster leaves threads behind that would keep the process.
        System.exit(0);
    }
}
