/**
 * One member by Java's clients: copies each record of the input to the output, in transactions with the group's offsets.
 *
 * <p>Member NAME BOOTSTRAP GROUP INPUT OUTPUT BATCH. As member.py's others: an error that ends a client has it begin with
 * new clients, SIGTERM ends it in order.
 */
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Member {
    private static volatile boolean isStopped = false;

    public static void main(String[] args) {
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isStopped = true;
            try {
                ended.await(25, TimeUnit.SECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        while (!isStopped) {
            try {
                turns(args);
            } catch (KafkaException error) {
                System.out.println("begins anew: " + error);
            }
        }
        ended.countDown();
    }

    private static void turns(String[] args) {
        Map<String, Object> common = Map.of("bootstrap.servers", args[1]);
        Map<String, Object> reads = new HashMap<>(common);
        reads.put("group.id", args[2]);
        reads.put("group.protocol", "consumer");
        reads.put("enable.auto.commit", "false");
        reads.put("auto.offset.reset", "earliest");
        reads.put("isolation.level", "read_committed");
        reads.put("max.poll.records", args[5]);
        Map<String, Object> writes = new HashMap<>(common);
        writes.put("transactional.id", args[0]);
        writes.put("transaction.timeout.ms", "10000");
        writes.put("max.block.ms", "30000");
        try (KafkaConsumer<byte[], byte[]> consumer =
                        new KafkaConsumer<>(reads, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(writes, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(args[3]));
            while (!isStopped) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (!records.isEmpty()) {
                    copy(consumer, producer, records, args[4]);
                }
            }
        }
    }

    /** Whatever ends it, the next consumer reads from where the group is. */
    private static void copy(
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer,
            ConsumerRecords<byte[], byte[]> records,
            String output) {
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(output, record.key(), record.value()));
                positions.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
        } catch (ApplicationRecoverableException fatal) {
            throw fatal;
        } catch (KafkaException error) {
            producer.abortTransaction();
            throw error;
        }
        commit(producer);
    }

    private static void commit(KafkaProducer<byte[], byte[]> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException unknown) {
                System.out.println("the commit is asked for again: " + unknown);
            } catch (ApplicationRecoverableException fatal) {
                throw fatal;
            } catch (KafkaException error) {
                producer.abortTransaction();
                throw error;
            }
        }
    }
}
