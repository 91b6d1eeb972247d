// The verbs that have to do with consumer groups.
package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"

	"interop/serve"
)

// claims hears of the partitions of a member, and of its records until one of them is the last that it wants.
type claims struct {
	topic   string
	changed func(added, removed []int32)
	isLast  func(*sarama.ConsumerMessage) bool
	over    context.CancelFunc
}

func (one *claims) Setup(session sarama.ConsumerGroupSession) error {
	one.changed(session.Claims()[one.topic], nil)
	return nil
}

func (one *claims) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	one.changed(nil, session.Claims()[one.topic])
	return nil
}

func (one *claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, is := <-claim.Messages():
			if !is {
				return nil
			}
			session.MarkMessage(message, "")
			if one.isLast(message) {
				one.over()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func asMember(question serve.Question, changed func(added, removed []int32), isLast func(*sarama.ConsumerMessage) bool) error {
	if question.How != "eager" {
		return serve.NotOffered("it has the eager protocol alone")
	}
	how := config()
	how.Consumer.Offsets.Initial = sarama.OffsetOldest
	how.Consumer.Offsets.AutoCommit.Enable = false
	how.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{rangeStrategy()}
	group, err := sarama.NewConsumerGroup(bootstrap, question.Group, how)
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, over := context.WithTimeout(context.Background(), 3*serve.Wait)
	defer over()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{question.Topic}, &claims{question.Topic, changed, isLast, over}); err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

func takeAsMember(question serve.Question) (serve.Answer, error) {
	found := serve.NewShared()
	count := 0
	err := asMember(question, func(_, _ []int32) {}, func(message *sarama.ConsumerMessage) bool {
		count = found.Add(message.Partition, message.Offset, string(message.Value))
		return count == question.Count
	})
	return serve.Answer{"records": found.Records}, err
}

func share(question serve.Question) (serve.Answer, error) {
	shared := serve.NewShared()
	err := asMember(question, shared.Assign, func(message *sarama.ConsumerMessage) bool {
		shared.Add(message.Partition, message.Offset, string(message.Value))
		return shared.IsOver()
	})
	return serve.Answer{"records": shared.Records}, err
}

func committed(admin sarama.ClusterAdmin, topic, group string) (map[int32]int64, error) {
	found := map[int32]int64{}
	answer, err := admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return found, err
	}
	for partition, block := range answer.Blocks[topic] {
		found[partition] = block.Offset
	}
	return found, nil
}

// administer does what an administrator can do to a group; each answer is true, or what was wrong.
func administer(admin sarama.ClusterAdmin, question serve.Question) (serve.Answer, error) {
	told := serve.Answer{}
	say := func(name string, is bool, err error) {
		told[name] = any(is)
		if err != nil {
			told[name] = err.Error()
		}
	}
	topic, group := question.Topic, question.Group
	listed, err := admin.ListConsumerGroups()
	_, is := listed[group]
	say("list", is, err)
	described, err := admin.DescribeConsumerGroups([]string{group})
	say("describe", len(described) == 1 && described[0].State == "Empty", err)
	offsets, err := committed(admin, topic, group)
	say("offsets", offsets[0] > serve.ResetTo, err)
	err = admin.DeleteConsumerGroupOffset(group, topic, 0)
	offsets, _ = committed(admin, topic, group)
	_, is = offsets[0]
	say("delete offsets", !is, err)
	err = admin.DeleteConsumerGroup(group)
	listed, _ = admin.ListConsumerGroups()
	_, is = listed[group]
	say("delete", !is, err)
	return told, nil
}
