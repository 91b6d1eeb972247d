// The driver of Java's own client. The protocol is that of tests/interop/drivers/serve.py.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Driver {
    static final int WAIT_S = 20;
    static final ObjectMapper JSON = new ObjectMapper();
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                tell(answer(JSON.readTree(line)));
            } catch (ExecutionException error) {
                tell(Map.of("error", String.valueOf(error.getCause())));
            } catch (Exception error) {
                tell(Map.of("error", String.valueOf(error)));
            }
        }
        System.exit(0);
    }

    static synchronized void tell(Map<String, ?> answer) throws Exception {
        System.out.println(JSON.writeValueAsString(answer));
    }

    static Map<String, ?> answer(JsonNode q) throws Exception {
        switch (q.get("do").asText()) {
            case "produce":
                return produce(q);
            case "stream":
                return stream(q);
            case "consume":
                return consume(q);
            case "seek":
                return seek(q);
            case "tail":
                return tail(q);
            case "follow":
                return follow(q);
            case "take":
                return Groups.take(q);
            case "share":
                return Groups.share(q);
            case "transact":
                return Transactions.transact(q);
            case "fence":
                return Transactions.fence(q);
            case "relay":
                return Transactions.relay(q);
            case "read":
                return Transactions.read(q);
            default:
                Properties how = properties();
                how.put("default.api.timeout.ms", 1000 * WAIT_S);
                how.put("request.timeout.ms", 500 * WAIT_S);
                try (Admin admin = Admin.create(how)) {
                    return administer(admin, q);
                }
        }
    }

    static Properties properties() {
        Properties how = new Properties();
        how.put("bootstrap.servers", bootstrap);
        String login = System.getenv("INTEROP_PROPERTIES");
        if (login != null) {
            try (FileReader file = new FileReader(login)) {
                how.load(file);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return how;
    }

    static <T> T get(Future<T> future) throws Exception {
        return future.get(WAIT_S, TimeUnit.SECONDS);
    }

    // -- admin ----------------------------------------------------------------------------------------------------------

    static Map<String, ?> administer(Admin admin, JsonNode q) throws Exception {
        String topic = q.path("topic").asText();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        TopicPartition at = new TopicPartition(topic, q.path("partition").asInt());
        switch (q.get("do").asText()) {
            case "create":
                NewTopic made = new NewTopic(topic, q.get("partitions").asInt(), (short) q.get("replicas").asInt());
                get(admin.createTopics(List.of(made.configs(texts(q.get("configs"))))).all());
                return Map.of();
            case "describe":
                return describe(get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic));
            case "cluster":
                Map<String, String> nodes = new HashMap<>();
                for (Node node : get(admin.describeCluster().nodes())) {
                    nodes.put(node.idString(), node.host() + ":" + node.port());
                }
                return Map.of("cluster_id", get(admin.describeCluster().clusterId()), "nodes", nodes);
            case "configs":
                Map<String, String> found = new HashMap<>();
                for (ConfigEntry entry : get(admin.describeConfigs(List.of(resource)).all()).get(resource).entries()) {
                    found.put(entry.name(), entry.value());
                }
                return Map.of("configs", found);
            case "alter_configs":
                Collection<AlterConfigOp> changes = new ArrayList<>();
                texts(q.get("configs")).forEach((name, value) ->
                    changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
                get(admin.incrementalAlterConfigs(Map.of(resource, changes)).all());
                return Map.of();
            case "add_partitions":
                get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(q.get("count").asInt()))).all());
                return Map.of();
            case "delete":
                get(admin.deleteTopics(List.of(topic)).all());
                return Map.of();
            case "delete_records":
                get(admin.deleteRecords(Map.of(at, RecordsToDelete.beforeOffset(q.get("before").asLong()))).all());
                return Map.of();
            case "offsets":
                return Map.of(
                    "earliest", offset(admin, at, OffsetSpec.earliest()),
                    "latest", offset(admin, at, OffsetSpec.latest()),
                    "at_timestamp", offset(admin, at, OffsetSpec.forTimestamp(q.get("timestamp").asLong())));
            case "operate":
                return operate(admin, topic);
            case "committed":
                return Map.of("offsets", Groups.committed(admin, topic, q.get("group").asText()));
            case "administer":
                return Groups.administer(admin, topic, q.get("group").asText());
            case "inspect":
                return Transactions.inspect(admin, topic, q.get("id").asText());
            default:
                return Map.of("not_offered", "the client has no such call");
        }
    }

    static Map<String, ?> describe(TopicDescription found) {
        List<Map<String, ?>> partitions = new ArrayList<>();
        found.partitions().forEach(partition -> partitions.add(Map.of(
            "leader", partition.leader() == null ? -1 : partition.leader().id(),
            "replicas", partition.replicas().stream().map(Node::id).toList(),
            "isr", partition.isr().stream().map(Node::id).toList())));
        return Map.of("partitions", partitions);
    }

    static long offset(Admin admin, TopicPartition at, OffsetSpec spec) throws Exception {
        return get(admin.listOffsets(Map.of(at, spec)).all()).get(at).offset();
    }

    static Map<String, String> texts(JsonNode object) {
        Map<String, String> found = new HashMap<>();
        object.fields().forEachRemaining(field -> found.put(field.getKey(), field.getValue().asText()));
        return found;
    }

    /** What else an administrator can know; each answer is true, or what was wrong. */
    static Map<String, ?> operate(Admin admin, String topic) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        TopicPartition at = new TopicPartition(topic, 0);
        List<Integer> nodes = get(admin.describeCluster().nodes()).stream().map(Node::id).toList();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(nodes.get(0)));
        say(told, "log dirs", () -> !get(admin.describeLogDirs(nodes).allDescriptions()).isEmpty());
        say(told, "quorum", () -> nodes.contains(get(admin.describeMetadataQuorum().quorumInfo()).leaderId()));
        say(told, "features", () -> get(admin.describeFeatures().featureMetadata()) != null);
        say(told, "broker configs", () -> get(admin.describeConfigs(List.of(broker)).all()).get(broker).entries().size() > 10);
        say(told, "producers", () -> get(admin.describeProducers(List.of(at)).all()).containsKey(at));
        say(told, "list topics", () -> get(admin.listTopics().names()).contains(topic));
        say(told, "elect leaders", () -> {
            Optional<Throwable> error = get(admin.electLeaders(ElectionType.PREFERRED, Set.of(at)).partitions()).get(at);
            return error.isEmpty() || error.get() instanceof ElectionNotNeededException;
        });
        say(told, "reassign", () -> {
            List<Integer> turned = new ArrayList<>(get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic)
                .partitions().get(0).replicas().stream().map(Node::id).toList());
            Collections.reverse(turned);
            get(admin.alterPartitionReassignments(Map.of(at, Optional.of(new NewPartitionReassignment(turned)))).all());
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
            while (!get(admin.listPartitionReassignments(Set.of(at)).reassignments()).isEmpty()) {
                if (System.nanoTime() > deadline) return false;
                Thread.sleep(50);
            }
            return true;
        });
        say(told, "acls", () -> {
            try {
                get(admin.describeAcls(AclBindingFilter.ANY).values());
                return System.getenv("INTEROP_PROPERTIES") != null; // with log-ins there is an authorizer
            } catch (ExecutionException error) {
                return error.getCause() instanceof SecurityDisabledException;
            }
        });
        return told;
    }

    static void say(Map<String, Object> told, String name, Callable<Boolean> check) throws Exception {
        try {
            told.put(name, check.call() ? (Object) true : "not so");
        } catch (ExecutionException error) {
            told.put(name, String.valueOf(error.getCause()));
        }
    }

    // -- producing ------------------------------------------------------------------------------------------------------

    static KafkaProducer<byte[], byte[]> producer(String codec, String acks, boolean idempotent, int lingerMs) {
        Properties how = properties();
        how.put("compression.type", codec);
        how.put("acks", acks);
        how.put("enable.idempotence", idempotent);
        how.put("linger.ms", lingerMs);
        return new KafkaProducer<>(how, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Map<String, ?> produce(JsonNode q) throws Exception {
        boolean told = !q.get("acks").asText().equals("0");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                 producer(q.get("codec").asText(), q.get("acks").asText(), q.get("idempotent").asBoolean(), 50)) {
            for (JsonNode record : q.get("records")) {
                Long timestamp = record.has("timestamp") ? record.get("timestamp").asLong() : null;
                ProducerRecord<byte[], byte[]> one = new ProducerRecord<>(q.get("topic").asText(), q.get("partition").asInt(),
                    timestamp, bytes(record.get("key")), bytes(record.get("value")));
                for (JsonNode header : record.path("headers")) {
                    one.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(one));
            }
            producer.flush();
        }
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> future : sent) {
            offsets.add(told ? (Long) get(future).offset() : null);
        }
        return Map.of("offsets", offsets);
    }

    static Map<String, ?> stream(JsonNode q) throws Exception {
        int count = q.get("count").asInt();
        List<Object> acked = Collections.synchronizedList(new ArrayList<>());
        List<String> failed = Collections.synchronizedList(new ArrayList<>());
        long began = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = producer("none", "all", q.get("idempotent").asBoolean(), 5)) {
            for (int number = 0; number < count; number++) {
                long due = began + (long) (number * q.get("seconds").asDouble() / count * 1e9);
                TimeUnit.NANOSECONDS.sleep(Math.max(0, due - System.nanoTime()));
                String value = String.valueOf(number);
                producer.send(
                    new ProducerRecord<>(q.get("topic").asText(), number % q.get("partitions").asInt(), null, bytes(value)),
                    (done, error) -> {
                        if (error != null) {
                            failed.add(error.toString());
                            return;
                        }
                        acked.add(List.of(done.partition(), done.offset(), value));
                        if (acked.size() == count / 3) {
                            try {
                                tell(Map.of("progress", acked.size()));
                            } catch (Exception broken) {
                                failed.add(broken.toString());
                            }
                        }
                    });
            }
            producer.flush();
        }
        return Map.of("acked", acked, "failed", failed);
    }

    // -- consuming ------------------------------------------------------------------------------------------------------

    static KafkaConsumer<byte[], byte[]> consumer() {
        Properties how = properties();
        how.put("auto.offset.reset", "earliest");
        how.put("fetch.max.wait.ms", 200);
        return new KafkaConsumer<>(how, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static List<Map<String, ?>> take(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<Map<String, ?>> found = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (found.size() < count && System.nanoTime() < deadline) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                List<List<String>> headers = new ArrayList<>();
                for (Header header : record.headers()) {
                    headers.add(java.util.Arrays.asList(header.key(), text(header.value())));
                }
                Map<String, Object> one = new HashMap<>();
                one.put("offset", record.offset());
                one.put("timestamp", record.timestamp());
                one.put("key", text(record.key()));
                one.put("value", text(record.value()));
                one.put("headers", headers);
                found.add(one);
            }
        }
        return found.subList(0, Math.min(count, found.size()));
    }

    static Map<String, ?> consume(JsonNode q) {
        TopicPartition here = new TopicPartition(q.get("topic").asText(), q.get("partition").asInt());
        JsonNode at = q.get("at");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(here));
            if (at.isObject()) {
                consumer.seek(here, consumer.offsetsForTimes(Map.of(here, at.get("timestamp").asLong())).get(here).offset());
            } else if (at.isNumber()) {
                consumer.seek(here, at.asLong());
            } else {
                consumer.seekToBeginning(List.of(here));
            }
            return Map.of("records", take(consumer, q.get("count").asInt()));
        }
    }

    static Map<String, ?> seek(JsonNode q) {
        TopicPartition here = new TopicPartition(q.get("topic").asText(), q.get("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(here));
            consumer.seekToBeginning(List.of(here));
            take(consumer, q.get("first").asInt());
            consumer.seek(here, q.get("to").asLong());
            return Map.of("records", take(consumer, q.get("count").asInt()));
        }
    }

    static Map<String, ?> tail(JsonNode q) throws Exception {
        TopicPartition here = new TopicPartition(q.get("topic").asText(), q.get("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(here));
            consumer.seekToEnd(List.of(here));
            consumer.position(here);
            consumer.poll(Duration.ofMillis(500)); // a fetch waits at the end
            tell(Map.of("ready", true));
            return Map.of("records", take(consumer, q.get("count").asInt()));
        }
    }

    static Map<String, ?> follow(JsonNode q) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int number = 0; number < q.get("partitions").asInt(); number++) {
            partitions.add(new TopicPartition(q.get("topic").asText(), number));
        }
        List<Object> records = new ArrayList<>();
        Set<String> values = new HashSet<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(3 * WAIT_S);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (values.size() < q.get("count").asInt() && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    records.add(List.of(record.partition(), record.offset(), text(record.value())));
                    values.add(text(record.value()));
                }
            }
        }
        return Map.of("records", records);
    }

    static String text(byte[] value) {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : bytes(text.asText());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
