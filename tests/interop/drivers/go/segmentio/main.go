// The driver of kafka-go (segmentio), with its Client for what an administrator does.
package main

import (
	"context"
	"errors"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"interop/serve"
)

var bootstrap []string

var codecs = map[string]kafka.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

// asAdmin gives the work a client and a limit of time.
func asAdmin(work func(context.Context, *kafka.Client, serve.Question) (serve.Answer, error)) func(serve.Question) (serve.Answer, error) {
	return func(question serve.Question) (serve.Answer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), serve.Wait)
		defer cancel()
		client := &kafka.Client{Addr: kafka.TCP(bootstrap...), Transport: &kafka.Transport{MetadataTTL: 500 * time.Millisecond}}
		return work(ctx, client, question)
	}
}

func create(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	topic := kafka.TopicConfig{Topic: question.Topic, NumPartitions: int(question.Partitions), ReplicationFactor: int(question.Replicas)}
	for name, value := range question.Configs {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	answer, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err == nil {
		err = answer.Errors[question.Topic]
	}
	return nil, err
}

func ids(brokers []kafka.Broker) []int {
	found := []int{}
	for _, broker := range brokers {
		found = append(found, broker.ID)
	}
	return found
}

func describe(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{question.Topic}})
	if err != nil {
		return nil, err
	}
	topic := metadata.Topics[0]
	if topic.Error != nil {
		return nil, topic.Error
	}
	sort.Slice(topic.Partitions, func(i, j int) bool { return topic.Partitions[i].ID < topic.Partitions[j].ID })
	partitions := []any{}
	for _, one := range topic.Partitions {
		partitions = append(partitions, serve.Answer{"leader": one.Leader.ID, "replicas": ids(one.Replicas), "isr": ids(one.Isr)})
	}
	return serve.Answer{"partitions": partitions}, nil
}

func cluster(ctx context.Context, client *kafka.Client, _ serve.Question) (serve.Answer, error) {
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	nodes := map[string]string{}
	for _, broker := range metadata.Brokers {
		nodes[strconv.Itoa(broker.ID)] = net.JoinHostPort(broker.Host, strconv.Itoa(broker.Port))
	}
	return serve.Answer{"cluster_id": metadata.ClusterID, "nodes": nodes}, nil
}

func entries(ctx context.Context, client *kafka.Client, kind kafka.ResourceType, name string) (map[string]string, error) {
	resource := kafka.DescribeConfigRequestResource{ResourceType: kind, ResourceName: name}
	answer, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, entry := range answer.Resources[0].ConfigEntries {
		found[entry.ConfigName] = entry.ConfigValue
	}
	return found, answer.Resources[0].Error
}

func configs(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	found, err := entries(ctx, client, kafka.ResourceTypeTopic, question.Topic)
	return serve.Answer{"configs": found}, err
}

func alterConfigs(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: question.Topic}
	for name, value := range question.Configs {
		change := kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}
		resource.Configs = append(resource.Configs, change)
	}
	request := &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{resource}}
	answer, err := client.IncrementalAlterConfigs(ctx, request)
	if err == nil {
		err = answer.Resources[0].Error
	}
	return nil, err
}

func addPartitions(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	topic := kafka.TopicPartitionsConfig{Name: question.Topic, Count: int32(question.Count)}
	answer, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{topic}})
	if err == nil {
		err = answer.Errors[question.Topic]
	}
	return nil, err
}

func deleteTopic(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	answer, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{question.Topic}})
	if err == nil {
		err = answer.Errors[question.Topic]
	}
	return nil, err
}

func offsets(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	partition := int(question.Partition)
	asked := []kafka.OffsetRequest{
		kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition), kafka.TimeOffsetOf(partition, time.UnixMilli(question.Timestamp)),
	}
	answer, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{question.Topic: asked}})
	if err != nil {
		return nil, err
	}
	found := answer.Topics[question.Topic][0]
	told := serve.Answer{"earliest": found.FirstOffset, "latest": found.LastOffset, "at_timestamp": -1}
	for offset := range found.Offsets {
		told["at_timestamp"] = offset
	}
	return told, found.Error
}

// operate asks for what else an administrator can know; each answer is true, or what was wrong.
func operate(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	told := serve.Answer{}
	say := func(name string, is bool, err error) {
		told[name] = any(is)
		if err != nil {
			told[name] = err.Error()
		}
	}
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	found, err := entries(ctx, client, kafka.ResourceTypeBroker, strconv.Itoa(metadata.Brokers[0].ID))
	say("broker configs", len(found) > 10, err)
	elected, err := client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{Topic: question.Topic, Partitions: []int{0}, Timeout: serve.Wait})
	say("elect leaders", err == nil && elected.Error == nil, err)
	versions, err := client.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	say("api versions", err == nil && len(versions.ApiKeys) > 10, err)
	return told, nil
}

// writer is a producer. It takes the partition of a message from its WriterData.
func writer(topic string, acks string, codec string, linger time.Duration) *kafka.Writer {
	return &kafka.Writer{
		Addr:         kafka.TCP(bootstrap...),
		Topic:        topic,
		Balancer:     kafka.BalancerFunc(func(message kafka.Message, _ ...int) int { return message.WriterData.(int) }),
		RequiredAcks: map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll}[acks],
		Compression:  codecs[codec],
		BatchTimeout: linger,
		MaxAttempts:  100,
		Transport:    &kafka.Transport{MetadataTTL: 500 * time.Millisecond},
	}
}

func produce(question serve.Question) (serve.Answer, error) {
	if question.Idempotent {
		return nil, serve.NotOffered("it has no idempotent producer")
	}
	made := writer(question.Topic, question.Acks, question.Codec, 50*time.Millisecond)
	var mutex sync.Mutex
	told := []any{}
	made.Completion = func(messages []kafka.Message, _ error) {
		mutex.Lock()
		defer mutex.Unlock()
		for _, message := range messages {
			if question.Acks == "0" {
				told = append(told, nil)
			} else {
				told = append(told, message.Offset)
			}
		}
	}
	messages := []kafka.Message{}
	for _, record := range question.Records {
		message := kafka.Message{Key: serve.Bytes(record.Key), Value: serve.Bytes(record.Value), WriterData: int(question.Partition)}
		if record.Timestamp != 0 {
			message.Time = time.UnixMilli(record.Timestamp)
		}
		for _, header := range record.Headers {
			message.Headers = append(message.Headers, kafka.Header{Key: *header[0], Value: serve.Bytes(header[1])})
		}
		messages = append(messages, message)
	}
	ctx, cancel := context.WithTimeout(context.Background(), serve.Wait)
	defer cancel()
	err := made.WriteMessages(ctx, messages...)
	for errors.Is(err, kafka.UnknownTopicOrPartition) && ctx.Err() == nil { // it does not ask again, as of a new topic
		time.Sleep(100 * time.Millisecond)
		err = made.WriteMessages(ctx, messages...)
	}
	made.Close()
	return serve.Answer{"offsets": told}, err
}

func stream(question serve.Question) (serve.Answer, error) {
	if question.Idempotent {
		return nil, serve.NotOffered("it has no idempotent producer")
	}
	told := serve.NewStream(question.Count)
	made := writer(question.Topic, "all", "none", 5*time.Millisecond)
	made.Async = true
	made.Completion = func(messages []kafka.Message, err error) {
		for _, message := range messages {
			told.Done(int32(message.Partition), message.Offset, string(message.Value), err)
		}
	}
	serve.Paced(question.Count, question.Seconds, func(number int) {
		message := kafka.Message{Value: []byte(strconv.Itoa(number)), WriterData: number % int(question.Partitions)}
		if err := made.WriteMessages(context.Background(), message); err != nil {
			told.Done(0, 0, "", err)
		}
	})
	made.Close()
	return told.Answer(), nil
}

func main() {
	bootstrap = strings.Split(os.Args[1], ",")
	serve.Serve(map[string]func(serve.Question) (serve.Answer, error){
		"create":         asAdmin(create),
		"describe":       asAdmin(describe),
		"cluster":        asAdmin(cluster),
		"configs":        asAdmin(configs),
		"alter_configs":  asAdmin(alterConfigs),
		"add_partitions": asAdmin(addPartitions),
		"delete":         asAdmin(deleteTopic),
		"offsets":        asAdmin(offsets),
		"operate":        asAdmin(operate),
		"produce":        produce,
		"stream":         stream,
		"consume":        consume,
		"seek":           seek,
		"tail":           tail,
		"follow":         follow,
		"take":           takeAsMember,
		"share":          share,
		"administer":     asAdmin(administer),
		"read":           read,
	})
}
