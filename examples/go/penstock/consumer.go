package penstock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"penstock.example/go/penstockpb"
)

const (
	fetchMaxWait      = 500 * time.Millisecond
	fetchMaxBytes     = 16 << 20
	partitionMaxBytes = 1 << 20
	none              = -1 // as replica id: a client; as epoch: do not check; as offset: no such
)

// Consumer reads partitions. Run reads until its context ends; what it reads is in the order of each partition.
type Consumer struct {
	cluster   *Cluster
	positions []*position
	handle    func(Record) error
	handling  sync.Mutex
}

// position is where one partition is read next. One goroutine at a time has it.
type position struct {
	key         partitionKey
	topicID     string
	offset      int64
	lastEpoch   int32 // the leader epoch of the last batch that was read
	leader      Leader
	told        bool // whether the session knows the partition at this offset
	failure     *Error
	hasProgress bool
}

// NewConsumer reads each partition of the topic from its first record. handle is called for one record at a time.
func NewConsumer(ctx context.Context, cluster *Cluster, topic string, handle func(Record) error) (*Consumer, error) {
	count, err := cluster.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	consumer := &Consumer{cluster: cluster, handle: handle}
	for partition := range count {
		consumer.positions = append(
			consumer.positions, &position{key: partitionKey{topic, partition}, lastEpoch: none})
	}
	return consumer, nil
}

// Run returns the error of ctx, of handle, or one that is not worth another attempt.
//
// It works in rounds: one session with each leader, until a partition fails; then it learns who leads that one now. A
// partition without a leader is looked for again every second.
func (c *Consumer) Run(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		if err := c.round(ctx); err != nil {
			return err
		}
		var last error
		follows := true // every partition that failed has another leader, who is asked at once
		for _, p := range c.positions {
			if p.hasProgress {
				attempt = 1
			}
			if failure := p.failure; failure != nil {
				last = failure
				follows = c.cluster.learn(ctx, p.key, p.leader, failure) && follows
			}
			p.failure, p.hasProgress = nil, false
		}
		if follows && ctx.Err() == nil {
			continue
		}
		if err := pause(ctx, attempt, last); err != nil {
			return err
		}
	}
}

// round has a session with each leader, and ends all of them when a partition fails.
func (c *Consumer) round(ctx context.Context) error {
	sessions := map[string][]*position{}
	leaderless := false
	for _, p := range c.positions {
		leader, err := c.cluster.leader(ctx, p.key)
		if err != nil && !errors.As(err, &p.failure) {
			return err
		}
		p.leader = leader
		leaderless = leaderless || err != nil
		if err == nil {
			if p.topicID == "" {
				p.topicID = leader.TopicID
			} else if p.topicID != leader.TopicID {
				return fmt.Errorf("topic %s was deleted and made anew", p.key.topic)
			}
			sessions[leader.Address] = append(sessions[leader.Address], p)
		}
	}
	var over atomic.Bool
	if leaderless {
		// The others are read meanwhile, and without a failure of theirs this round would not end.
		defer time.AfterFunc(backoffMax, func() { over.Store(true) }).Stop()
	}
	results := make(chan error, len(sessions))
	for address, positions := range sessions {
		go func() {
			err := c.session(ctx, address, positions, &over)
			over.Store(true)
			results <- err
		}()
	}
	var failures []error
	for range sessions {
		failures = append(failures, <-results)
	}
	return errors.Join(append(failures, ctx.Err())...)
}

// session is one fetch stream. It ends when the round is over, with a failure in each position that had one.
func (c *Consumer) session(ctx context.Context, address string, positions []*position, over *atomic.Bool) error {
	broker, err := c.cluster.broker(address)
	if err != nil {
		return err
	}
	stream, failure := openLockstep(address, func(ctx context.Context) (
		grpc.BidiStreamingClient[penstockpb.FetchRequest, penstockpb.FetchResponse], error,
	) {
		return broker.Fetch(ctx)
	})
	if failure != nil {
		failed(positions, failure)
		return nil
	}
	defer stream.cancel()
	byKey := map[partitionKey]*position{}
	for _, p := range positions {
		p.told = false // a new stream is a new session
		byKey[p.key] = p
	}
	for turn := int64(1); !over.Load() && ctx.Err() == nil; turn++ {
		answer, failure := stream.ask(ctx, request(turn, positions))
		if failure == nil {
			failure = fromMessage(answer.Error)
		}
		if failure != nil {
			failed(positions, failure)
			return nil
		}
		for _, result := range answer.Partitions {
			p := byKey[partitionKey{result.Topic, result.Partition}]
			if p == nil {
				continue
			}
			if result.TopicId != p.topicID || result.FetchOffset != p.offset {
				p.told = false // an answer to a question that is not asked any more: ask again
				continue
			}
			if err := c.take(p, result); err != nil {
				return err
			}
			if p.failure != nil {
				over.Store(true)
			}
		}
	}
	return nil
}

func failed(positions []*position, failure *Error) {
	for _, p := range positions {
		p.failure = failure
	}
}

// request names the partitions that moved since the request before.
func request(turn int64, positions []*position) *penstockpb.FetchRequest {
	made := &penstockpb.FetchRequest{
		CorrelationId: turn,
		ReplicaId:     none,
		BrokerEpoch:   none,
		MaxWaitMs:     int32(fetchMaxWait / time.Millisecond),
		MinBytes:      1,
		MaxBytes:      fetchMaxBytes,
		ClientId:      "go-example",
	}
	for _, p := range positions {
		if p.told {
			continue
		}
		p.told = true
		made.Partitions = append(made.Partitions, &penstockpb.FetchPartition{
			Topic:              p.key.topic,
			Partition:          p.key.partition,
			TopicId:            p.topicID,
			FetchOffset:        p.offset,
			CurrentLeaderEpoch: p.leader.Epoch,
			LastFetchedEpoch:   p.lastEpoch,
			LogStartOffset:     none,
			MaxBytes:           partitionMaxBytes,
		})
	}
	return made
}

// take hands over the records of a result and moves the position. The error it returns ends the consumer.
func (c *Consumer) take(p *position, result *penstockpb.PartitionFetchResult) error {
	if failure := fromMessage(result.Error); failure != nil {
		if failure.Code == offsetOutOfRange && p.offset < failure.LogStartOffset {
			p.offset, p.lastEpoch, p.told = failure.LogStartOffset, none, false // the records before were deleted
			return nil
		}
		p.failure = failure
		return nil
	}
	if diverging := result.DivergingEpoch; diverging != nil {
		return fmt.Errorf("%s-%d: records that were read are lost: the log of epoch %d ends at %d, the position is %d",
			p.key.topic, p.key.partition, diverging.Epoch, diverging.EndOffset, p.offset)
	}
	batches, err := decodeBatches(result.Records)
	if err != nil {
		return fmt.Errorf("%s-%d: %w", p.key.topic, p.key.partition, err)
	}
	c.handling.Lock()
	defer c.handling.Unlock()
	for _, batch := range batches {
		for _, record := range batch.records {
			if record.Offset < p.offset {
				continue // the first batch may begin below the position
			}
			record.Topic, record.Partition = p.key.topic, p.key.partition
			if err := c.handle(record); err != nil {
				return err
			}
		}
		p.offset, p.lastEpoch, p.told, p.hasProgress = batch.nextOffset, batch.leaderEpoch, false, true
	}
	return nil
}
