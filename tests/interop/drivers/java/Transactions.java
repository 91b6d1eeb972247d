// The verbs of Driver.java that have to do with transactions.

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

class Transactions {
    static final int RELAYED = 10;

    static KafkaProducer<byte[], byte[]> producer(JsonNode q) {
        Properties how = Driver.properties();
        how.put("transactional.id", q.get("id").asText());
        how.put("max.block.ms", 1000 * Driver.WAIT_S);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(how, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<byte[], byte[]> consumer(String isolation, String group) {
        Properties how = Driver.properties();
        how.put("isolation.level", isolation);
        how.put("auto.offset.reset", "earliest");
        how.put("enable.auto.commit", false);
        how.put("fetch.max.wait.ms", 200);
        how.put("max.poll.records", RELAYED);
        if (group != null) how.put("group.id", group);
        return new KafkaConsumer<>(how, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic, int partition, byte[] value) {
        producer.send(new ProducerRecord<>(topic, partition, null, value));
    }

    static void end(KafkaProducer<byte[], byte[]> producer, String how) {
        if (how.equals("commit")) producer.commitTransaction();
        else producer.abortTransaction();
    }

    static Map<String, ?> transact(JsonNode q) {
        try (KafkaProducer<byte[], byte[]> producer = producer(q)) {
            for (JsonNode one : q.get("transactions")) {
                producer.beginTransaction();
                for (JsonNode value : one.get("values")) {
                    send(producer, q.get("topic").asText(), q.get("partition").asInt(), bytes(value.asText()));
                }
                producer.flush();
                end(producer, one.get("end").asText());
            }
        }
        return Map.of();
    }

    static Map<String, ?> fence(JsonNode q) {
        String topic = q.get("topic").asText();
        try (KafkaProducer<byte[], byte[]> first = producer(q)) {
            first.beginTransaction();
            send(first, topic, q.get("partition").asInt(), bytes(q.get("older").asText()));
            first.flush();
            try (KafkaProducer<byte[], byte[]> second = producer(q)) {
                second.beginTransaction();
                send(second, topic, q.get("partition").asInt(), bytes(q.get("newer").asText()));
                second.commitTransaction();
            }
            first.commitTransaction();
        } catch (KafkaException error) {
            return Map.of("refused", String.valueOf(error));
        }
        return Map.of("refused", "");
    }

    static Map<String, ?> relay(JsonNode q) {
        String source = q.get("source").asText(), group = q.get("group").asText();
        try (KafkaProducer<byte[], byte[]> producer = producer(q)) {
            for (JsonNode how : q.get("ends")) {
                try (KafkaConsumer<byte[], byte[]> consumer = consumer("read_committed", group)) {
                    consumer.subscribe(List.of(source));
                    List<ConsumerRecord<byte[], byte[]>> found = taken(consumer, RELAYED);
                    producer.beginTransaction();
                    found.forEach(record -> send(producer, q.get("topic").asText(), 0, record.value()));
                    long next = found.get(found.size() - 1).offset() + 1;
                    producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(source, 0), new OffsetAndMetadata(next)), consumer.groupMetadata());
                    end(producer, how.asText());
                }
            }
        }
        return Map.of();
    }

    static Map<String, ?> read(JsonNode q) {
        TopicPartition at = new TopicPartition(q.get("topic").asText(), q.get("partition").asInt());
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(q.get("isolation").asText(), null)) {
            consumer.assign(List.of(at));
            consumer.seekToBeginning(List.of(at));
            taken(consumer, q.get("count").asInt()).forEach(record -> values.add(Driver.text(record.value())));
        }
        return Map.of("values", values);
    }

    /** Each answer is true, or what was wrong, about an id whose last transaction is committed. */
    static Map<String, ?> inspect(Admin admin, String topic, String id) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        TopicPartition at = new TopicPartition(topic, 0);
        Driver.say(told, "list", () -> Driver.get(admin.listTransactions().all()).stream()
            .anyMatch(one -> one.transactionalId().equals(id) && one.state() == TransactionState.COMPLETE_COMMIT));
        Driver.say(told, "describe", () -> Driver.get(admin.describeTransactions(List.of(id)).all())
            .get(id).state() == TransactionState.COMPLETE_COMMIT);
        Driver.say(told, "producers", () -> Driver.get(admin.describeProducers(List.of(at)).all())
            .get(at).activeProducers().stream().allMatch(one -> one.currentTransactionStartOffset().isEmpty()));
        Driver.say(told, "fence", () -> Driver.get(admin.fenceProducers(List.of(id)).epochId(id)) > 0);
        return told;
    }

    static List<ConsumerRecord<byte[], byte[]>> taken(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Driver.WAIT_S);
        while (found.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(500)).forEach(found::add);
        }
        return found;
    }

    static byte[] bytes(String value) {
        return value.getBytes(StandardCharsets.UTF_8);
    }
}
