package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/** In place of Hive 3.1's own, which reads a field of Java 8: a part of a list goes as a list. */
class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
    @Override
    public void write(Kryo kryo, Output output, List<?> list) {
        kryo.writeObject(output, new ArrayList<Object>(list));
    }

    @Override
    public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
        List<?> list = kryo.readObject(input, ArrayList.class);
        kryo.reference(list);
        return list;
    }

    @Override
    public List<?> copy(Kryo kryo, List<?> list) {
        return new ArrayList<Object>(list);
    }
}
