package penstock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"penstock.example/go/penstockpb"
)

// Writer writes batches to one partition, one at a time, so that retries keep their order. It has a stream of its own, and
// is for one goroutine; use one Writer for each partition.
type Writer struct {
	cluster       *Cluster
	key           partitionKey
	acks          int32
	topicID       string
	stream        *lockstep[penstockpb.ProduceRequest, penstockpb.ProduceResponse]
	correlationID int64
}

// AcksAll waits for every in-sync replica.
const AcksAll = -1

// NewWriter opens nothing yet.
func NewWriter(cluster *Cluster, topic string, partition int32, acks int32) *Writer {
	return &Writer{cluster: cluster, key: partitionKey{topic, partition}, acks: acks}
}

// Close ends the stream.
func (w *Writer) Close() {
	if w.stream != nil {
		w.stream.cancel()
		w.stream = nil
	}
}

// Written is the outcome of a batch.
type Written struct {
	BaseOffset int64
	Attempts   int
	MaybeTwice bool // an attempt before the last one may have written the records, too
}

// Write returns when the batch is acked, and retries until ctx ends. After an error the records may be in the log all the
// same, unless the error is an *Error with NothingWritten.
func (w *Writer) Write(ctx context.Context, records []Record) (Written, error) {
	if len(records) == 0 {
		return Written{}, errors.New("a batch needs a record")
	}
	batch := EncodeBatch(records)
	var written Written
	for {
		written.Attempts++
		leader, base, err := w.attempt(ctx, batch)
		if err == nil {
			written.BaseOffset = base
			return written, nil
		}
		var told *Error
		if !errors.As(err, &told) {
			return written, err
		}
		if told.Retriable() {
			written.MaybeTwice = written.MaybeTwice || !told.NothingWritten
			if w.cluster.learn(ctx, w.key, leader, told) && ctx.Err() == nil {
				continue // another leader is known: ask it at once
			}
		} else if written.MaybeTwice {
			told.NothingWritten = false // an earlier attempt may have written them
		}
		if err := pause(ctx, written.Attempts, told); err != nil {
			return written, err
		}
	}
}

// attempt sends the batch to the leader that is known, and waits for its answer.
func (w *Writer) attempt(ctx context.Context, batch []byte) (Leader, int64, error) {
	leader, err := w.cluster.leader(ctx, w.key)
	if err != nil {
		var told *Error
		if errors.As(err, &told) {
			told.NothingWritten = true // nobody was asked
		}
		return leader, 0, err
	}
	if w.topicID == "" {
		w.topicID = leader.TopicID
	} else if w.topicID != leader.TopicID {
		return leader, 0, fmt.Errorf("topic %s was deleted and made anew", w.key.topic)
	}
	if w.stream == nil || w.stream.address != leader.Address {
		w.Close()
		opened, failure := openProduce(w.cluster, leader.Address)
		if failure != nil {
			return leader, 0, failure
		}
		w.stream = opened
	}
	w.correlationID++
	answer, failure := w.stream.ask(ctx, &penstockpb.ProduceRequest{
		CorrelationId: w.correlationID,
		Acks:          w.acks,
		TimeoutMs:     int32(requestTimeout / time.Millisecond),
		ClientId:      "go-example",
		Partitions: []*penstockpb.PartitionRecords{
			{Topic: w.key.topic, Partition: w.key.partition, TopicId: w.topicID, Records: batch},
		},
	})
	if failure != nil {
		w.Close()
		return leader, 0, failure
	}
	if failure := fromMessage(answer.Error); failure != nil {
		return leader, 0, failure
	}
	if w.acks == 0 {
		return leader, -1, nil // nothing is known but that the request was taken
	}
	if len(answer.Partitions) != 1 || answer.CorrelationId != w.correlationID {
		w.Close()
		return leader, 0, newError(unknownServerError, "the answer is to another request")
	}
	if failure := fromMessage(answer.Partitions[0].Error); failure != nil {
		return leader, 0, failure
	}
	return leader, answer.Partitions[0].BaseOffset, nil
}

func openProduce(
	c *Cluster, address string,
) (*lockstep[penstockpb.ProduceRequest, penstockpb.ProduceResponse], *Error) {
	broker, err := c.broker(address)
	if err != nil {
		return nil, newError(invalidRequest, err.Error())
	}
	return openLockstep(address, func(ctx context.Context) (
		grpc.BidiStreamingClient[penstockpb.ProduceRequest, penstockpb.ProduceResponse], error,
	) {
		return broker.Produce(ctx)
	})
}
