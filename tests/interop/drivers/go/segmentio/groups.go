// The verbs that have to do with consumer groups.
package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"

	"interop/serve"
)

const eagerAlone = serve.NotOffered("it has the eager protocol alone")

func takeAsMember(question serve.Question) (serve.Answer, error) {
	if question.How != "eager" {
		return nil, eagerAlone
	}
	member := kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, GroupID: question.Group, Topic: question.Topic, StartOffset: kafka.FirstOffset,
		MaxWait: 200 * time.Millisecond, GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
	})
	defer member.Close()
	found, err := messages(context.Background(), member, question.Count)
	records := []any{}
	for _, message := range found {
		records = append(records, []any{message.Partition, message.Offset, string(message.Value)})
	}
	if err == nil {
		err = member.CommitMessages(context.Background(), found...)
	}
	return serve.Answer{"records": records}, err
}

// share is by the client's own class for a group, since its reader does not say which partitions it has.
func share(question serve.Question) (serve.Answer, error) {
	if question.How != "eager" {
		return nil, eagerAlone
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: question.Group, Brokers: bootstrap, Topics: []string{question.Topic}, StartOffset: kafka.FirstOffset,
		GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
	})
	if err != nil {
		return nil, err
	}
	shared := serve.NewShared()
	ctx, over := context.WithTimeout(context.Background(), 3*serve.Wait)
	defer over()
	for !shared.IsOver() {
		generation, err := group.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			continue
		}
		oneGeneration(question.Topic, generation, shared, over)
	}
	group.Close()
	return serve.Answer{"records": shared.Records}, nil
}

// oneGeneration reads the partitions of the member until the generation ends, and commits each record.
func oneGeneration(topic string, generation *kafka.Generation, shared *serve.Shared, over func()) {
	own := []int32{}
	for _, one := range generation.Assignments[topic] {
		own = append(own, int32(one.ID))
	}
	shared.Assign(own, nil)
	for _, one := range generation.Assignments[topic] {
		generation.Start(func(ctx context.Context) {
			from := reader(topic, one.ID, kafka.ReadUncommitted)
			defer from.Close()
			from.SetOffset(one.Offset)
			for ctx.Err() == nil {
				message, err := from.FetchMessage(ctx)
				if err != nil {
					continue
				}
				if generation.CommitOffsets(map[string]map[int]int64{topic: {one.ID: message.Offset + 1}}) != nil {
					return
				}
				shared.Add(int32(one.ID), message.Offset, string(message.Value))
				if shared.IsOver() {
					over()
					return
				}
			}
		})
	}
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		shared.Assign(nil, own)
	})
}

// administer does what an administrator can do to a group; each answer is true, or what was wrong.
func administer(ctx context.Context, client *kafka.Client, question serve.Question) (serve.Answer, error) {
	told := serve.Answer{}
	say := func(name string, is bool, err error) {
		told[name] = any(is)
		if err != nil {
			told[name] = err.Error()
		}
	}
	topic, group := question.Topic, question.Group
	described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	say("describe", err == nil && described.Groups[0].GroupState == "Empty", err)
	fetched, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
	say("offsets", err == nil && fetched.Topics[topic][0].CommittedOffset > serve.ResetTo, err)
	removed, err := client.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
	say("delete offsets", err == nil && removed.Error == nil, err)
	listed, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	say("list", err == nil && listed.Error == nil && isListed(listed, group), err)
	deleted, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	say("delete", err == nil && deleted.Errors[group] == nil, err)
	return told, nil
}

func isListed(listed *kafka.ListGroupsResponse, group string) bool {
	for _, one := range listed.Groups {
		if one.GroupID == group {
			return true
		}
	}
	return false
}
