// The verbs that read: one partition, or as a member of a group.
package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"

	"interop/serve"
)

func reader(topic string, partition int, isolation kafka.IsolationLevel) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, Topic: topic, Partition: partition, MaxWait: 200 * time.Millisecond, IsolationLevel: isolation,
		MaxAttempts: 100, ReadBackoffMax: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20,
	})
}

func messages(ctx context.Context, from *kafka.Reader, count int) ([]kafka.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, serve.Wait)
	defer cancel()
	found := []kafka.Message{}
	for len(found) < count {
		message, err := from.FetchMessage(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return found, nil
			}
			return found, err
		}
		found = append(found, message)
	}
	return found, nil
}

func shown(found []kafka.Message) serve.Answer {
	records := []serve.Record{}
	for _, message := range found {
		headers := [][]*string{}
		for _, header := range message.Headers {
			headers = append(headers, []*string{&header.Key, serve.Text(header.Value)})
		}
		records = append(records, serve.Record{
			Offset: message.Offset, Timestamp: message.Time.UnixMilli(),
			Key: serve.Text(message.Key), Value: serve.Text(message.Value), Headers: headers,
		})
	}
	return serve.Answer{"records": records}
}

func consume(question serve.Question) (serve.Answer, error) {
	from := reader(question.Topic, int(question.Partition), kafka.ReadUncommitted)
	defer from.Close()
	offset, when, byTime := question.Start()
	err := from.SetOffset(offset)
	if byTime {
		err = from.SetOffsetAt(context.Background(), time.UnixMilli(when))
	}
	if err != nil {
		return nil, err
	}
	found, err := messages(context.Background(), from, question.Count)
	return shown(found), err
}

func seek(question serve.Question) (serve.Answer, error) {
	from := reader(question.Topic, int(question.Partition), kafka.ReadUncommitted)
	defer from.Close()
	if _, err := messages(context.Background(), from, question.First); err != nil {
		return nil, err
	}
	if err := from.SetOffset(question.To); err != nil {
		return nil, err
	}
	found, err := messages(context.Background(), from, question.Count)
	return shown(found), err
}

func tail(question serve.Question) (serve.Answer, error) {
	end, err := asAdmin(offsets)(question)
	if err != nil {
		return nil, err
	}
	from := reader(question.Topic, int(question.Partition), kafka.ReadUncommitted)
	defer from.Close()
	if err := from.SetOffset(end["latest"].(int64)); err != nil {
		return nil, err
	}
	time.AfterFunc(500*time.Millisecond, func() { serve.Tell(serve.Answer{"ready": true}) }) // a fetch waits at the end
	found, err := messages(context.Background(), from, question.Count)
	return shown(found), err
}

func follow(question serve.Question) (serve.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*serve.Wait)
	defer cancel()
	all := make(chan kafka.Message)
	for number := range int(question.Partitions) {
		go func() {
			from := reader(question.Topic, number, kafka.ReadUncommitted)
			defer from.Close()
			for ctx.Err() == nil {
				message, err := from.FetchMessage(ctx)
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				select {
				case all <- message:
				case <-ctx.Done():
				}
			}
		}()
	}
	records, values := []any{}, map[string]bool{}
	for len(values) < question.Count {
		select {
		case message := <-all:
			records = append(records, []any{message.Partition, message.Offset, string(message.Value)})
			values[string(message.Value)] = true
		case <-ctx.Done():
			return serve.Answer{"records": records}, nil
		}
	}
	return serve.Answer{"records": records}, nil
}

func read(question serve.Question) (serve.Answer, error) {
	level := kafka.ReadUncommitted
	if question.Isolation == "read_committed" {
		level = kafka.ReadCommitted
	}
	from := reader(question.Topic, int(question.Partition), level)
	defer from.Close()
	found, err := messages(context.Background(), from, question.Count)
	values := []string{}
	for _, message := range found {
		values = append(values, string(message.Value))
	}
	return serve.Answer{"values": values}, err
}
