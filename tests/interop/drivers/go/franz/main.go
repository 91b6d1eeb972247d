// The driver of franz-go, with kadm for what an administrator does.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"interop/serve"
)

var bootstrap []string

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.FetchMaxWait(200 * time.Millisecond)}, options...)...)
}

// asAdmin gives the work an administrator's client, which is closed after it.
func asAdmin(work func(context.Context, *kadm.Client, serve.Question) (serve.Answer, error)) func(serve.Question) (serve.Answer, error) {
	return func(question serve.Question) (serve.Answer, error) {
		made, err := client()
		if err != nil {
			return nil, err
		}
		defer made.Close()
		ctx, cancel := context.WithTimeout(context.Background(), serve.Wait)
		defer cancel()
		return work(ctx, kadm.NewClient(made), question)
	}
}

func create(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	configs := map[string]*string{}
	for name, value := range question.Configs {
		configs[name] = kadm.StringPtr(value)
	}
	answer, err := admin.CreateTopic(ctx, question.Partitions, question.Replicas, configs, question.Topic)
	if err == nil {
		err = answer.Err
	}
	return nil, err
}

func describe(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	topics, err := admin.ListTopics(ctx, question.Topic)
	if err != nil {
		return nil, err
	}
	found := topics[question.Topic]
	if found.Err != nil {
		return nil, found.Err
	}
	partitions := []any{}
	for _, partition := range found.Partitions.Sorted() {
		partitions = append(partitions, serve.Answer{"leader": partition.Leader, "replicas": partition.Replicas, "isr": partition.ISR})
	}
	return serve.Answer{"partitions": partitions}, nil
}

func cluster(ctx context.Context, admin *kadm.Client, _ serve.Question) (serve.Answer, error) {
	metadata, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	nodes := map[string]string{}
	for _, broker := range metadata.Brokers {
		nodes[strconv.Itoa(int(broker.NodeID))] = fmt.Sprintf("%s:%d", broker.Host, broker.Port)
	}
	return serve.Answer{"cluster_id": metadata.Cluster, "nodes": nodes}, nil
}

func configs(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	resources, err := admin.DescribeTopicConfigs(ctx, question.Topic)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, resource := range resources {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, config := range resource.Configs {
			found[config.Key] = config.MaybeValue()
		}
	}
	return serve.Answer{"configs": found}, nil
}

func alterConfigs(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	changes := []kadm.AlterConfig{}
	for name, value := range question.Configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: kadm.StringPtr(value)})
	}
	answers, err := admin.AlterTopicConfigs(ctx, changes, question.Topic)
	for _, answer := range answers {
		if answer.Err != nil {
			return nil, answer.Err
		}
	}
	return nil, err
}

func addPartitions(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	answers, err := admin.UpdatePartitions(ctx, question.Count, question.Topic)
	if err == nil {
		err = answers.Error()
	}
	return nil, err
}

func deleteTopic(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	answers, err := admin.DeleteTopics(ctx, question.Topic)
	if err == nil {
		err = answers.Error()
	}
	return nil, err
}

func deleteRecords(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	at := kadm.Offsets{}
	at.Add(kadm.Offset{Topic: question.Topic, Partition: question.Partition, At: question.Before, LeaderEpoch: -1})
	answers, err := admin.DeleteRecords(ctx, at)
	if err == nil {
		err = answers.Error()
	}
	return nil, err
}

func offsets(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	told := serve.Answer{}
	lists := map[string]func() (kadm.ListedOffsets, error){
		"earliest": func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, question.Topic) },
		"latest":   func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, question.Topic) },
		"at_timestamp": func() (kadm.ListedOffsets, error) {
			return admin.ListOffsetsAfterMilli(ctx, question.Timestamp, question.Topic)
		},
	}
	for name, list := range lists {
		listed, err := list()
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return nil, err
		}
		offset, _ := listed.Lookup(question.Topic, question.Partition)
		told[name] = offset.Offset
	}
	return told, nil
}

// operate asks for what else an administrator can know; each answer is true, or what was wrong.
func operate(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	told := serve.Answer{}
	say := func(name string, is bool, err error) {
		told[name] = any(is)
		if err != nil {
			told[name] = err.Error()
		} else if !is {
			told[name] = "empty"
		}
	}
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	say("log dirs", len(dirs) > 0, err)
	versions, err := admin.ApiVersions(ctx)
	say("api versions", len(versions) > 0, err)
	elected, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{question.Topic: {0: {}}})
	say("elect leaders", len(elected) > 0, err)
	moving, err := admin.ListPartitionReassignments(ctx, nil)
	say("reassignments", len(moving) == 0, err)
	producers, err := admin.DescribeProducers(ctx, kadm.TopicsSet{question.Topic: {0: {}}})
	say("producers", len(producers) > 0, err)
	brokers, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	described, err := admin.DescribeBrokerConfigs(ctx, brokers.Brokers[0].NodeID)
	say("broker configs", len(described) > 0 && len(described[0].Configs) > 10, err)
	return told, nil
}

func produce(question serve.Question) (serve.Answer, error) {
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[question.Acks]
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(acks), kgo.ProducerLinger(50 * time.Millisecond),
		kgo.ProducerBatchCompression(codecs[question.Codec]),
	}
	if !question.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	made, err := client(options...)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	records := []*kgo.Record{}
	for _, record := range question.Records {
		one := &kgo.Record{
			Topic: question.Topic, Partition: question.Partition, Key: serve.Bytes(record.Key), Value: serve.Bytes(record.Value),
		}
		if record.Timestamp != 0 {
			one.Timestamp = time.UnixMilli(record.Timestamp)
		}
		for _, header := range record.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: *header[0], Value: serve.Bytes(header[1])})
		}
		records = append(records, one)
	}
	ctx, cancel := context.WithTimeout(context.Background(), serve.Wait)
	defer cancel()
	results := made.ProduceSync(ctx, records...)
	told := []any{}
	for _, result := range results {
		if question.Acks == "0" {
			told = append(told, nil)
		} else {
			told = append(told, result.Record.Offset)
		}
	}
	return serve.Answer{"offsets": told}, results.FirstErr()
}

func stream(question serve.Question) (serve.Answer, error) {
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5 * time.Millisecond)}
	if !question.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	made, err := client(options...)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	told := serve.NewStream(question.Count)
	var left sync.WaitGroup
	serve.Paced(question.Count, question.Seconds, func(number int) {
		left.Add(1)
		value := strconv.Itoa(number)
		record := &kgo.Record{Topic: question.Topic, Partition: int32(number) % question.Partitions, Value: []byte(value)}
		made.Produce(context.Background(), record, func(done *kgo.Record, err error) {
			told.Done(done.Partition, done.Offset, value, err)
			left.Done()
		})
	})
	left.Wait()
	return told.Answer(), nil
}

func consumer(topic string, partitions map[int32]kgo.Offset) (*kgo.Client, error) {
	return client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: partitions}))
}

// take polls until there are count records, or the time is over.
func take(made *kgo.Client, count int) ([]serve.Record, error) {
	found := []serve.Record{}
	ctx, cancel := context.WithTimeout(context.Background(), serve.Wait)
	defer cancel()
	for len(found) < count && ctx.Err() == nil {
		fetches := made.PollRecords(ctx, count-len(found))
		for _, failure := range fetches.Errors() {
			if ctx.Err() == nil {
				return nil, failure.Err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			headers := [][]*string{}
			for _, header := range record.Headers {
				headers = append(headers, []*string{&header.Key, serve.Text(header.Value)})
			}
			found = append(found, serve.Record{
				Offset: record.Offset, Timestamp: record.Timestamp.UnixMilli(),
				Key: serve.Text(record.Key), Value: serve.Text(record.Value), Headers: headers,
			})
		})
	}
	return found, nil
}

func consume(question serve.Question) (serve.Answer, error) {
	at := kgo.NewOffset().AtStart()
	if offset, when, byTime := question.Start(); byTime {
		at = kgo.NewOffset().AfterMilli(when)
	} else if offset >= 0 {
		at = kgo.NewOffset().At(offset)
	}
	made, err := consumer(question.Topic, map[int32]kgo.Offset{question.Partition: at})
	if err != nil {
		return nil, err
	}
	defer made.Close()
	records, err := take(made, question.Count)
	return serve.Answer{"records": records}, err
}

func seek(question serve.Question) (serve.Answer, error) {
	made, err := consumer(question.Topic, map[int32]kgo.Offset{question.Partition: kgo.NewOffset().AtStart()})
	if err != nil {
		return nil, err
	}
	defer made.Close()
	if _, err := take(made, question.First); err != nil {
		return nil, err
	}
	made.SetOffsets(map[string]map[int32]kgo.EpochOffset{question.Topic: {question.Partition: {Epoch: -1, Offset: question.To}}})
	records, err := take(made, question.Count)
	return serve.Answer{"records": records}, err
}

func tail(question serve.Question) (serve.Answer, error) {
	made, err := consumer(question.Topic, map[int32]kgo.Offset{question.Partition: kgo.NewOffset().AtEnd()})
	if err != nil {
		return nil, err
	}
	defer made.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // a fetch waits at the end
	made.PollRecords(ctx, question.Count)
	cancel()
	serve.Tell(serve.Answer{"ready": true})
	records, err := take(made, question.Count)
	return serve.Answer{"records": records}, err
}

func follow(question serve.Question) (serve.Answer, error) {
	partitions := map[int32]kgo.Offset{}
	for partition := range question.Partitions {
		partitions[partition] = kgo.NewOffset().AtStart()
	}
	made, err := consumer(question.Topic, partitions)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*serve.Wait)
	defer cancel()
	records, values := []any{}, map[string]bool{}
	for len(values) < question.Count && ctx.Err() == nil {
		made.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			records = append(records, []any{record.Partition, record.Offset, string(record.Value)})
			values[string(record.Value)] = true
		})
	}
	return serve.Answer{"records": records}, nil
}

func main() {
	bootstrap = strings.Split(os.Args[1], ",")
	serve.Serve(map[string]func(serve.Question) (serve.Answer, error){
		"create": asAdmin(create), "describe": asAdmin(describe), "cluster": asAdmin(cluster), "configs": asAdmin(configs),
		"alter_configs": asAdmin(alterConfigs), "add_partitions": asAdmin(addPartitions), "delete": asAdmin(deleteTopic),
		"delete_records": asAdmin(deleteRecords), "offsets": asAdmin(offsets), "operate": asAdmin(operate),
		"produce": produce, "stream": stream, "consume": consume, "seek": seek, "tail": tail, "follow": follow,
		"take": takeAsMember, "share": share, "administer": asAdmin(administer),
	})
}
