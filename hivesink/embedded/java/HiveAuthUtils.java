package org.apache.hadoop.hive.common.auth;

import java.net.InetSocketAddress;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportException;

/**
 * Stands before Hive's class of this name on the class path of the embedded metastore: the metastore of
 * Hive 2.3 listens on every interface of the machine and has no setting for that.
 */
public final class HiveAuthUtils {
    private HiveAuthUtils() {}

    public static TServerSocket getServerSocket(String ignored, int port) throws TTransportException {
        TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", port));
        System.out.println("hivesink: listening on 127.0.0.1:" + port);
        return socket;
    }
}
