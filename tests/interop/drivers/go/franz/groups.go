// The verbs that have to do with consumer groups.
package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"interop/serve"
)

func member(question serve.Question, more ...kgo.Opt) (*kgo.Client, error) {
	options := append(more,
		kgo.ConsumerGroup(question.Group), kgo.ConsumeTopics(question.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	switch question.How {
	case "eager":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "cooperative":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
		more, err := serverSide()
		if err != nil {
			return nil, err
		}
		options = append(options, more)
	}
	return client(options...)
}

func takeAsMember(question serve.Question) (serve.Answer, error) {
	made, err := member(question)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	ctx, cancel := context.WithTimeout(context.Background(), serve.Wait)
	defer cancel()
	found := []any{}
	for len(found) < question.Count && ctx.Err() == nil {
		made.PollRecords(ctx, question.Count-len(found)).EachRecord(func(record *kgo.Record) {
			found = append(found, []any{record.Partition, record.Offset, string(record.Value)})
		})
	}
	return serve.Answer{"records": found}, made.CommitUncommittedOffsets(context.Background())
}

func share(question serve.Question) (serve.Answer, error) {
	shared := serve.NewShared()
	gone := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		shared.Assign(nil, partitions[question.Topic])
	}
	made, err := member(question, kgo.OnPartitionsRevoked(gone), kgo.OnPartitionsLost(gone),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			shared.Assign(partitions[question.Topic], nil)
		}))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	for !shared.IsOver() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		made.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			shared.Add(record.Partition, record.Offset, string(record.Value))
		})
		cancel()
	}
	return serve.Answer{"records": shared.Records}, made.CommitUncommittedOffsets(context.Background())
}

func committed(ctx context.Context, admin *kadm.Client, topic, group string) (map[int32]int64, error) {
	found := map[int32]int64{}
	answers, err := admin.FetchOffsets(ctx, group)
	answers.Each(func(one kadm.OffsetResponse) {
		if one.Topic == topic && one.Err == nil {
			found[one.Partition] = one.At
		}
	})
	return found, err
}

// administer does what an administrator can do to a group; each answer is true, or what was wrong.
func administer(ctx context.Context, admin *kadm.Client, question serve.Question) (serve.Answer, error) {
	told := serve.Answer{}
	say := func(name string, is bool, err error) {
		told[name] = any(is)
		if err != nil {
			told[name] = err.Error()
		}
	}
	topic, group := question.Topic, question.Group
	listed, err := admin.ListGroups(ctx)
	_, is := listed[group]
	say("list", is, err)
	described, err := admin.DescribeGroups(ctx, group)
	say("describe", described[group].State == "Empty", err)
	offsets, err := committed(ctx, admin, topic, group)
	say("offsets", offsets[0] > serve.ResetTo, err)
	reset := kadm.Offsets{}
	reset.Add(kadm.Offset{Topic: topic, Partition: 0, At: serve.ResetTo, LeaderEpoch: -1})
	err = admin.CommitAllOffsets(ctx, group, reset)
	offsets, _ = committed(ctx, admin, topic, group)
	say("reset", offsets[0] == serve.ResetTo, err)
	forgotten, err := admin.DeleteOffsets(ctx, group, kadm.TopicsSet{topic: {0: {}}})
	if err == nil {
		err = forgotten.Error()
	}
	offsets, _ = committed(ctx, admin, topic, group)
	_, is = offsets[0]
	say("delete offsets", !is, err)
	deleted, err := admin.DeleteGroup(ctx, group)
	if err == nil {
		err = deleted.Err
	}
	listed, _ = admin.ListGroups(ctx)
	_, is = listed[group]
	say("delete", !is, err)
	return told, nil
}
