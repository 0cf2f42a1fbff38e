package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/** In place of Hive 3.1's own, which reads a field of Java 8: a part of a list goes as a list. */
class SerializationUtilities$ArrayListSubListSerializer extends Serializer {
    public SerializationUtilities$ArrayListSubListSerializer() {}

    public void write(Kryo kryo, Output output, Object list) {
        kryo.writeObject(output, new ArrayList((List) list));
    }

    public Object read(Kryo kryo, Input input, Class type) {
        Object list = kryo.readObject(input, ArrayList.class);
        kryo.reference(list);
        return list;
    }

    public Object copy(Kryo kryo, Object list) {
        return new ArrayList((List) list);
    }
}
