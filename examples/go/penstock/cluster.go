package penstock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"penstock.example/go/penstockpb"
)

const (
	messageBytesMax = 128 << 20
	callTimeout     = 5 * time.Second
	requestTimeout  = 10 * time.Second
	backoffFirst    = 100 * time.Millisecond
	backoffMax      = time.Second
)

// Leader is the node to ask about a partition.
type Leader struct {
	Address string
	Epoch   int32
	TopicID string
}

type partitionKey struct {
	topic     string
	partition int32
}

// Cluster knows the nodes of a cluster, and who leads what. It is safe for concurrent use.
type Cluster struct {
	bootstrap []string
	security  Security

	mu          sync.Mutex
	connections map[string]*grpc.ClientConn
	addresses   map[int32]string
	leaders     map[partitionKey]Leader
	counts      map[string]int32
}

// NewCluster connects to nothing yet; bootstrap has the addresses of some nodes.
func NewCluster(security Security, bootstrap ...string) *Cluster {
	return &Cluster{
		security:    security,
		bootstrap:   bootstrap,
		connections: map[string]*grpc.ClientConn{},
		addresses:   map[int32]string{},
		leaders:     map[partitionKey]Leader{},
		counts:      map[string]int32{},
	}
}

// Close ends every connection, and with it every stream.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, connection := range c.connections {
		connection.Close()
	}
	clear(c.connections)
}

func (c *Cluster) broker(address string) (penstockpb.BrokerClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	connection := c.connections[address]
	if connection == nil {
		options := append(c.security.dialOptions(address),
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		)
		made, err := grpc.NewClient("passthrough:///"+address, options...)
		if err != nil {
			return nil, err
		}
		connection = made
		c.connections[address] = connection
	}
	return penstockpb.NewBrokerClient(connection), nil
}

// Partitions is how many the topic has.
func (c *Cluster) Partitions(ctx context.Context, topic string) (int32, error) {
	for attempt := 1; ; attempt++ {
		err := c.refresh(ctx, topic)
		c.mu.Lock()
		count := c.counts[topic]
		c.mu.Unlock()
		if count > 0 {
			return count, nil
		}
		if err := pause(ctx, attempt, err); err != nil {
			return 0, err
		}
	}
}

// leader is what is known of the partition's leader; asks for it where that is nothing.
func (c *Cluster) leader(ctx context.Context, key partitionKey) (Leader, error) {
	if found, ok := c.known(key); ok {
		return found, nil
	}
	err := c.refresh(ctx, key.topic)
	if found, ok := c.known(key); ok {
		return found, nil
	}
	if err == nil {
		err = newError(5, fmt.Sprintf("%s-%d has no leader now", key.topic, key.partition))
	}
	return Leader{}, err
}

func (c *Cluster) known(key partitionKey) (Leader, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.leaders[key]
	return found, ok && found.Address != ""
}

// learn takes what an error says about the leader. It reports whether another leader is known now than was asked; if not,
// and it may be another one, the metadata are asked for.
func (c *Cluster) learn(ctx context.Context, key partitionKey, asked Leader, err *Error) bool {
	if hint := err.Leader; hint.GetHost() != "" {
		address := net.JoinHostPort(hint.Host, strconv.Itoa(int(hint.Port)))
		c.note(key, Leader{address, hint.LeaderEpoch, hint.TopicId})
	}
	if found, _ := c.known(key); found == asked && codeTable[err.Code].leaderMayMove {
		_ = c.refresh(ctx, key.topic) // who cannot be asked now is asked again after the back-off
	}
	found, ok := c.known(key)
	return ok && found != asked
}

// note never goes back to an older leader of the same topic: nodes learn of changes one after the other.
func (c *Cluster) note(key partitionKey, leader Leader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.leaders[key]
	if !ok || old.TopicID != leader.TopicID || leader.Epoch >= old.Epoch {
		c.leaders[key] = leader
	}
}

// refresh asks one node after the other for the topic's metadata, until one answers.
func (c *Cluster) refresh(ctx context.Context, topic string) error {
	var failures []error
	for _, address := range c.candidates() {
		answer, err := c.metadata(ctx, address, topic)
		if err == nil {
			return c.take(answer)
		}
		var told *Error
		if errors.As(err, &told) && (told.Code == saslAuthenticationFailed || told.Code == authenticationRequired) {
			return told // another node knows the same users
		}
		failures = append(failures, err)
	}
	return newError(networkException, errors.Join(failures...).Error())
}

func (c *Cluster) candidates() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := append([]string(nil), c.bootstrap...)
	for _, address := range c.addresses {
		found = append(found, address)
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found
}

func (c *Cluster) metadata(ctx context.Context, address, topic string) (*penstockpb.MetadataResponse, error) {
	broker, err := c.broker(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var trailer metadata.MD
	answer, err := broker.Metadata(ctx, &penstockpb.MetadataRequest{Topics: []string{topic}}, grpc.Trailer(&trailer))
	if err != nil {
		return nil, fromStatus(err, trailer, address)
	}
	return answer, nil
}

func (c *Cluster) take(answer *penstockpb.MetadataResponse) error {
	addresses := map[int32]string{}
	for _, node := range answer.Brokers {
		addresses[node.NodeId] = net.JoinHostPort(node.Host, strconv.Itoa(int(node.Port)))
	}
	c.mu.Lock()
	c.addresses = addresses
	c.mu.Unlock()
	for _, topic := range answer.Topics {
		if err := fromMessage(topic.Error); err != nil {
			return err
		}
		c.mu.Lock()
		c.counts[topic.Name] = int32(len(topic.Partitions))
		c.mu.Unlock()
		for _, one := range topic.Partitions {
			key := partitionKey{topic.Name, one.Partition}
			c.note(key, Leader{addresses[one.LeaderId], one.LeaderEpoch, topic.TopicId})
		}
	}
	return nil
}

// pause waits before the attempt after this one. It returns the error that ends the attempts: of the context, with the
// last error of the cluster, or that one where it is not worth another attempt.
func pause(ctx context.Context, attempt int, last error) error {
	var told *Error
	if errors.As(last, &told) && !told.Retriable() {
		return last
	}
	wait := min(backoffFirst<<min(attempt-1, 10), backoffMax)
	wait -= rand.N(wait/5 + 1)
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w; the last error: %w", ctx.Err(), last)
	}
}
