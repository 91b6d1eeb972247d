// penstock-example writes lines to a topic, and reads them.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"penstock.example/go/penstock"
)

const usage = `usage: penstock-example [options] produce|consume TOPIC

  produce   writes the lines of stdin, and prints "partition offset line" for each one that is acked
  consume   reads every partition from its first record, and prints "partition offset value"
`

// batchLines is how many lines a batch takes at most; it is closed earlier when no line waits.
const batchLines = 500

// lookUpTimeout is how long the topic may be unknown, or no node may answer, at the start.
const lookUpTimeout = 20 * time.Second

func main() {
	bootstrap := flag.String("bootstrap", variable("BOOTSTRAP", "127.0.0.1:9192"), "addresses of some nodes: HOST:PORT[,...]")
	acks := flag.Int("acks", penstock.AcksAll, "produce: -1 for all in-sync replicas, 1 for the leader")
	count := flag.Int("count", 0, "consume: end after this many records; 0: go on")
	timeout := flag.Duration("timeout", 2*time.Minute, "produce: how long one batch may take, retries included")
	ca := flag.String("tls-ca", variable("TLS_CA", ""), "speak TLS, and trust the authorities in this `file`")
	username := flag.String("username", variable("USERNAME", ""), "log in as this user")
	passwordFile := flag.String("password-file", variable("PASSWORD_FILE", ""), "the `file` with its password")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage); flag.PrintDefaults() }
	flag.Parse()
	if flag.NArg() != 2 || (*acks != penstock.AcksAll && *acks != 1) {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	security, err := secured(*ca, *username, *passwordFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	cluster := penstock.NewCluster(security, strings.Split(*bootstrap, ",")...)
	defer cluster.Close()
	switch flag.Arg(0) {
	case "produce":
		err = produce(ctx, cluster, flag.Arg(1), int32(*acks), *timeout)
	case "consume":
		err = consume(ctx, cluster, flag.Arg(1), *count)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// variable is one of those that all clients read (docs/security.md).
func variable(name, otherwise string) string {
	if value := os.Getenv("PENSTOCK_" + name); value != "" {
		return value
	}
	return otherwise
}

// secured never takes a password as an argument, which every user of a machine can see.
func secured(ca, username, passwordFile string) (penstock.Security, error) {
	security := penstock.Security{Username: username, Password: os.Getenv("PENSTOCK_PASSWORD")}
	var err error
	if ca != "" {
		if security.TLS, err = penstock.TrustCA(ca); err != nil {
			return security, err
		}
	}
	if passwordFile != "" {
		text, err := os.ReadFile(passwordFile)
		if err != nil {
			return security, err
		}
		line, _, _ := strings.Cut(string(text), "\n")
		security.Password = strings.TrimRight(line, "\r")
	}
	if username != "" && security.Password == "" {
		return security, fmt.Errorf("-username %s: give its password with -password-file, or in PENSTOCK_PASSWORD", username)
	}
	return security, nil
}

// produce deals the lines to the partitions in turn. Each partition has a goroutine with a Writer.
func produce(ctx context.Context, cluster *penstock.Cluster, topic string, acks int32, timeout time.Duration) error {
	lookUp, done := context.WithTimeout(ctx, lookUpTimeout)
	defer done()
	partitions, err := cluster.Partitions(lookUp, topic)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var printing sync.Mutex
	var written, maybeTwice, retries int
	var writers sync.WaitGroup
	queues := make([]chan string, partitions)
	for partition := range partitions {
		lines := make(chan string, batchLines)
		queues[partition] = lines
		writers.Add(1)
		go func() {
			defer writers.Done()
			writer := penstock.NewWriter(cluster, topic, partition, acks)
			defer writer.Close()
			for batch := nextBatch(lines); batch != nil; batch = nextBatch(lines) {
				outcome, err := write(ctx, writer, batch, timeout)
				if err != nil {
					cancel(fmt.Errorf("%s-%d: %d lines are not acked: %w", topic, partition, len(batch), err))
					return
				}
				printing.Lock()
				for i, record := range batch {
					fmt.Println(partition, outcome.BaseOffset+int64(i), string(record.Value))
				}
				written += len(batch)
				retries += outcome.Attempts - 1
				if outcome.MaybeTwice {
					maybeTwice += len(batch)
				}
				printing.Unlock()
			}
		}()
	}
	read := deal(ctx, queues)
	writers.Wait()
	fmt.Fprintf(os.Stderr, "%d lines acked, %d retries, %d lines may be there twice\n", written, retries, maybeTwice)
	return errors.Join(context.Cause(ctx), read)
}

// deal returns when stdin ends or ctx does; then no queue gets more.
func deal(ctx context.Context, queues []chan string) error {
	defer func() {
		for _, lines := range queues {
			close(lines)
		}
	}()
	input := bufio.NewScanner(os.Stdin)
	scanned := make(chan string)
	go func() { // a read of stdin cannot be interrupted
		defer close(scanned)
		for input.Scan() {
			scanned <- input.Text()
		}
	}()
	for next := 0; ; next++ {
		select {
		case line, more := <-scanned:
			if !more {
				return input.Err()
			}
			select {
			case queues[next%len(queues)] <- line:
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// nextBatch waits for a line, and takes with it those that wait already; nil at the end.
func nextBatch(lines <-chan string) []penstock.Record {
	line, more := <-lines
	if !more {
		return nil
	}
	now := time.Now()
	batch := []penstock.Record{{Value: []byte(line), Time: now}}
	for len(batch) < batchLines {
		select {
		case line, more := <-lines:
			if !more {
				return batch
			}
			batch = append(batch, penstock.Record{Value: []byte(line), Time: now})
		default:
			return batch
		}
	}
	return batch
}

func write(
	ctx context.Context, writer *penstock.Writer, batch []penstock.Record, timeout time.Duration,
) (penstock.Written, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return writer.Write(ctx, batch)
}

var errEnough = errors.New("enough")

func consume(ctx context.Context, cluster *penstock.Cluster, topic string, count int) error {
	left := count
	lookUp, done := context.WithTimeout(ctx, lookUpTimeout)
	defer done()
	consumer, err := penstock.NewConsumer(lookUp, cluster, topic, func(record penstock.Record) error {
		fmt.Println(record.Partition, record.Offset, string(record.Value))
		if left--; left == 0 {
			return errEnough
		}
		return nil
	})
	if err == nil {
		err = consumer.Run(ctx)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
