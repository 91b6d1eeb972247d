// The driver of sarama.
package main

import (
	"errors"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"interop/serve"
)

var bootstrap []string

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Consumer.MaxWaitTime = 200 * time.Millisecond
	made.Producer.Return.Successes = true
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Producer.Retry.Max = 100
	made.Producer.Retry.Backoff = 100 * time.Millisecond
	return made
}

// asAdmin gives the work an administrator's client, which is closed after it.
func asAdmin(work func(sarama.ClusterAdmin, serve.Question) (serve.Answer, error)) func(serve.Question) (serve.Answer, error) {
	return func(question serve.Question) (serve.Answer, error) {
		admin, err := sarama.NewClusterAdmin(bootstrap, config())
		if err != nil {
			return nil, err
		}
		defer admin.Close()
		return work(admin, question)
	}
}

func create(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	detail := &sarama.TopicDetail{
		NumPartitions: question.Partitions, ReplicationFactor: question.Replicas, ConfigEntries: map[string]*string{},
	}
	for name, value := range question.Configs {
		detail.ConfigEntries[name] = &value
	}
	return nil, admin.CreateTopic(question.Topic, detail, false)
}

func describe(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	topics, err := admin.DescribeTopics([]string{question.Topic})
	if err != nil {
		return nil, err
	}
	if topics[0].Err != sarama.ErrNoError {
		return nil, topics[0].Err
	}
	found := topics[0].Partitions
	sort.Slice(found, func(i, j int) bool { return found[i].ID < found[j].ID })
	partitions := []any{}
	for _, partition := range found {
		partitions = append(partitions, serve.Answer{"leader": partition.Leader, "replicas": partition.Replicas, "isr": partition.Isr})
	}
	return serve.Answer{"partitions": partitions}, nil
}

func cluster(admin sarama.ClusterAdmin, _ serve.Question) (serve.Answer, error) {
	brokers, _, err := admin.DescribeCluster()
	nodes := map[string]string{}
	for _, broker := range brokers {
		nodes[strconv.Itoa(int(broker.ID()))] = broker.Addr()
	}
	return serve.Answer{"nodes": nodes}, err
}

func configs(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: question.Topic})
	found := map[string]string{}
	for _, entry := range entries {
		found[entry.Name] = entry.Value
	}
	return serve.Answer{"configs": found}, err
}

func alterConfigs(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range question.Configs {
		changes[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	}
	return nil, admin.IncrementalAlterConfig(sarama.TopicResource, question.Topic, changes, false)
}

func addPartitions(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	return nil, admin.CreatePartitions(question.Topic, int32(question.Count), nil, false)
}

func deleteTopic(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	return nil, admin.DeleteTopic(question.Topic)
}

func deleteRecords(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	return nil, admin.DeleteRecords(question.Topic, map[int32]int64{question.Partition: question.Before})
}

// operate asks for what else an administrator can know; each answer is true, or what was wrong.
func operate(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	told := serve.Answer{}
	say := func(name string, is bool, err error) {
		told[name] = any(is)
		if err != nil {
			told[name] = err.Error()
		} else if !is {
			told[name] = "empty"
		}
	}
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return nil, err
	}
	dirs, err := admin.DescribeLogDirs([]int32{brokers[0].ID()})
	say("log dirs", len(dirs) > 0, err)
	moving, err := admin.ListPartitionReassignments(question.Topic, []int32{0})
	say("reassignments", len(moving) == 0, err)
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: strconv.Itoa(int(brokers[0].ID()))})
	say("broker configs", len(entries) > 10, err)
	return told, nil
}

func offsets(question serve.Question) (serve.Answer, error) {
	client, err := sarama.NewClient(bootstrap, config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	told := serve.Answer{}
	times := map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest, "at_timestamp": question.Timestamp}
	for name, when := range times {
		offset, err := client.GetOffset(question.Topic, question.Partition, when)
		if err != nil {
			return nil, err
		}
		told[name] = offset
	}
	return told, nil
}

func produce(question serve.Question) (serve.Answer, error) {
	how := config()
	how.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}[question.Acks]
	how.Producer.Compression = codecs[question.Codec]
	how.Producer.Flush.Frequency = 50 * time.Millisecond
	if question.Idempotent {
		how.Producer.Idempotent, how.Net.MaxOpenRequests = true, 1
	}
	producer, err := sarama.NewSyncProducer(bootstrap, how)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for _, record := range question.Records {
		message := &sarama.ProducerMessage{Topic: question.Topic, Partition: question.Partition}
		if record.Key != nil {
			message.Key = sarama.StringEncoder(*record.Key)
		}
		if record.Value != nil {
			message.Value = sarama.StringEncoder(*record.Value)
		}
		if record.Timestamp != 0 {
			message.Timestamp = time.UnixMilli(record.Timestamp)
		}
		for _, header := range record.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(*header[0]), Value: serve.Bytes(header[1])})
		}
		messages = append(messages, message)
	}
	err = producer.SendMessages(messages)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		err = failed[0].Err // the others have the same; the list says only how many
	}
	told := []any{}
	for _, message := range messages {
		if question.Acks == "0" {
			told = append(told, nil)
		} else {
			told = append(told, message.Offset)
		}
	}
	return serve.Answer{"offsets": told}, err
}

func stream(question serve.Question) (serve.Answer, error) {
	how := config()
	how.Producer.RequiredAcks = sarama.WaitForAll
	how.Producer.Flush.Frequency = 5 * time.Millisecond
	if question.Idempotent {
		how.Producer.Idempotent, how.Net.MaxOpenRequests = true, 1
	}
	producer, err := sarama.NewAsyncProducer(bootstrap, how)
	if err != nil {
		return nil, err
	}
	told := serve.NewStream(question.Count)
	var left sync.WaitGroup
	left.Add(question.Count)
	go func() {
		for message := range producer.Successes() {
			value, _ := message.Value.Encode()
			told.Done(message.Partition, message.Offset, string(value), nil)
			left.Done()
		}
	}()
	go func() {
		for failure := range producer.Errors() {
			told.Done(0, 0, "", failure.Err)
			left.Done()
		}
	}()
	serve.Paced(question.Count, question.Seconds, func(number int) {
		value := sarama.StringEncoder(strconv.Itoa(number))
		producer.Input() <- &sarama.ProducerMessage{Topic: question.Topic, Partition: int32(number) % question.Partitions, Value: value}
	})
	left.Wait() // BEFORE it is closed: a producer that shuts down fails what it has yet to send again
	producer.AsyncClose()
	return told.Answer(), nil
}

// reading gives the work a consumer of one partition from an offset on, or from a time on.
func reading(question serve.Question, offset, when int64, work func(sarama.Consumer, sarama.PartitionConsumer) (serve.Answer, error)) (serve.Answer, error) {
	client, err := sarama.NewClient(bootstrap, config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if when > 0 {
		if offset, err = client.GetOffset(question.Topic, question.Partition, when); err != nil {
			return nil, err
		}
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	partition, err := consumer.ConsumePartition(question.Topic, question.Partition, offset)
	if err != nil {
		return nil, err
	}
	return work(consumer, partition)
}

func take(partition sarama.PartitionConsumer, count int) []serve.Record {
	found := []serve.Record{}
	deadline := time.After(serve.Wait)
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			headers := [][]*string{}
			for _, header := range message.Headers {
				headers = append(headers, []*string{serve.Text(header.Key), serve.Text(header.Value)})
			}
			found = append(found, serve.Record{
				Offset: message.Offset, Timestamp: message.Timestamp.UnixMilli(),
				Key: serve.Text(message.Key), Value: serve.Text(message.Value), Headers: headers,
			})
		case <-deadline:
			return found
		}
	}
	return found
}

func consume(question serve.Question) (serve.Answer, error) {
	offset, when, _ := question.Start()
	return reading(question, offset, when, func(_ sarama.Consumer, partition sarama.PartitionConsumer) (serve.Answer, error) {
		defer partition.Close()
		return serve.Answer{"records": take(partition, question.Count)}, nil
	})
}

func seek(question serve.Question) (serve.Answer, error) {
	return reading(question, sarama.OffsetOldest, 0, func(consumer sarama.Consumer, partition sarama.PartitionConsumer) (serve.Answer, error) {
		take(partition, question.First)
		partition.Close()
		again, err := consumer.ConsumePartition(question.Topic, question.Partition, question.To)
		if err != nil {
			return nil, err
		}
		defer again.Close()
		return serve.Answer{"records": take(again, question.Count)}, nil
	})
}

func tail(question serve.Question) (serve.Answer, error) {
	return reading(question, sarama.OffsetNewest, 0, func(_ sarama.Consumer, partition sarama.PartitionConsumer) (serve.Answer, error) {
		defer partition.Close()
		serve.Tell(serve.Answer{"ready": true})
		return serve.Answer{"records": take(partition, question.Count)}, nil
	})
}

func follow(question serve.Question) (serve.Answer, error) {
	consumer, err := sarama.NewConsumer(bootstrap, config())
	if err != nil {
		return nil, err
	}
	all := make(chan *sarama.ConsumerMessage)
	for number := range question.Partitions {
		partition, err := consumer.ConsumePartition(question.Topic, number, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		go func() {
			for message := range partition.Messages() {
				all <- message
			}
		}()
	}
	records, values := []any{}, map[string]bool{}
	deadline := time.After(3 * serve.Wait)
	for len(values) < question.Count {
		select {
		case message := <-all:
			records = append(records, []any{message.Partition, message.Offset, string(message.Value)})
			values[string(message.Value)] = true
		case <-deadline:
			return serve.Answer{"records": records}, nil
		}
	}
	return serve.Answer{"records": records}, nil
}

func main() {
	bootstrap = strings.Split(os.Args[1], ",")
	serve.Serve(map[string]func(serve.Question) (serve.Answer, error){
		"create": asAdmin(create), "describe": asAdmin(describe), "cluster": asAdmin(cluster), "configs": asAdmin(configs),
		"alter_configs": asAdmin(alterConfigs), "add_partitions": asAdmin(addPartitions), "delete": asAdmin(deleteTopic),
		"delete_records": asAdmin(deleteRecords), "operate": asAdmin(operate), "offsets": offsets,
		"produce": produce, "stream": stream, "consume": consume, "seek": seek, "tail": tail, "follow": follow,
		"take": takeAsMember, "share": share, "administer": asAdmin(administer),
	})
}
