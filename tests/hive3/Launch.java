import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;

/** Runs a main class in a URLClassLoader, to which Hive 3.1's SessionState casts its own: Java 8 had such a one. */
public class Launch {
    public static void main(String[] arguments) throws Exception {
        String[] entries = arguments[0].split(File.pathSeparator);
        URL[] path = new URL[entries.length];
        for (int at = 0; at < entries.length; at++) {
            path[at] = new File(entries[at]).toURI().toURL();
        }
        ClassLoader loader = new URLClassLoader(path, ClassLoader.getPlatformClassLoader());
        Thread.currentThread().setContextClassLoader(loader);
        Object rest = Arrays.copyOfRange(arguments, 2, arguments.length);
        loader.loadClass(arguments[1]).getMethod("main", String[].class).invoke(null, rest);
    }
}
