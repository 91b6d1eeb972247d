// The verbs of Driver.java that have to do with consumer groups.

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

class Groups {
    static final String LAST = "last";
    static final int RESET_TO = 3;

    static KafkaConsumer<byte[], byte[]> member(JsonNode q) {
        Properties how = Driver.properties();
        how.put("group.id", q.get("group").asText());
        how.put("auto.offset.reset", "earliest");
        how.put("enable.auto.commit", false);
        how.put("fetch.max.wait.ms", 200);
        switch (q.get("how").asText()) {
            case "eager":
                how.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
                break;
            case "cooperative":
                how.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
                break;
            default:
                how.put("group.protocol", "consumer");
        }
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(how, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(q.get("topic").asText()));
        return consumer;
    }

    static List<Object> placed(ConsumerRecord<byte[], byte[]> record) {
        return List.of(record.partition(), record.offset(), Driver.text(record.value()));
    }

    static Map<String, ?> take(JsonNode q) {
        List<Object> found = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Driver.WAIT_S);
        try (KafkaConsumer<byte[], byte[]> consumer = member(q)) {
            while (found.size() < q.get("count").asInt() && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> found.add(placed(record)));
            }
            consumer.commitSync();
        }
        return Map.of("records", found);
    }

    static Map<String, ?> share(JsonNode q) throws Exception {
        List<Object> records = new ArrayList<>();
        Set<Integer> assigned = new TreeSet<>();
        Set<Integer> own = null;
        Set<Integer> ended = new HashSet<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(3 * Driver.WAIT_S);
        try (KafkaConsumer<byte[], byte[]> consumer = member(q)) {
            while ((own == null || !ended.containsAll(own)) && System.nanoTime() < deadline) {
                Iterable<ConsumerRecord<byte[], byte[]>> some = consumer.poll(Duration.ofMillis(100));
                Set<Integer> now = new TreeSet<>();
                consumer.assignment().forEach(part -> now.add(part.partition()));
                if (!now.equals(assigned)) {
                    assigned = now;
                    Driver.tell(Map.of("assigned", now));
                }
                for (ConsumerRecord<byte[], byte[]> record : some) {
                    own = own == null ? assigned : own;
                    records.add(placed(record));
                    if (LAST.equals(Driver.text(record.value()))) ended.add(record.partition());
                }
            }
            consumer.commitSync();
        }
        return Map.of("records", records);
    }

    static Map<Integer, Long> committed(Admin admin, String topic, String group) throws Exception {
        Map<Integer, Long> offsets = new HashMap<>();
        Driver.get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach((at, found) -> {
            if (at.topic().equals(topic) && found != null) offsets.put(at.partition(), found.offset());
        });
        return offsets;
    }

    /** Each answer is true, or what was wrong. */
    static Map<String, ?> administer(Admin admin, String topic, String group) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        TopicPartition at = new TopicPartition(topic, 0);
        Driver.say(told, "list", () -> GroupCalls.isListed(admin, group));
        Driver.say(told, "describe", () -> GroupCalls.isEmpty(admin, group));
        Driver.say(told, "offsets", () -> committed(admin, topic, group).get(0) > RESET_TO);
        Driver.say(told, "reset", () -> {
            Driver.get(admin.alterConsumerGroupOffsets(group, Map.of(at, new OffsetAndMetadata(RESET_TO))).all());
            return committed(admin, topic, group).get(0) == RESET_TO;
        });
        Driver.say(told, "delete offsets", () -> {
            Driver.get(admin.deleteConsumerGroupOffsets(group, Set.of(at)).all());
            return !committed(admin, topic, group).containsKey(0);
        });
        Driver.say(told, "delete", () -> {
            Driver.get(admin.deleteConsumerGroups(List.of(group)).all());
            return !GroupCalls.isListed(admin, group);
        });
        return told;
    }
}
