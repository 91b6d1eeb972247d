// Package serve is the protocol of a driver, as tests/interop/drivers/serve.py has it: a line of stdin is a question in
// JSON, a line of stdout is its answer.
package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Wait is how long a driver waits for records that should be there.
const Wait = 20 * time.Second

// NotOffered says why the client cannot be asked for this.
type NotOffered string

func (why NotOffered) Error() string { return string(why) }

// Answer is one JSON object.
type Answer = map[string]any

// Record is one that is produced or was consumed.
type Record struct {
	Offset    int64       `json:"offset"`
	Timestamp int64       `json:"timestamp"`
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][]*string `json:"headers"`
}

// Question has the arguments of every verb.
type Question struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic"`
	Partition  int32             `json:"partition"`
	Partitions int32             `json:"partitions"`
	Replicas   int16             `json:"replicas"`
	Count      int               `json:"count"`
	Configs    map[string]string `json:"configs"`
	Before     int64             `json:"before"`
	Timestamp  int64             `json:"timestamp"`
	Records    []Record          `json:"records"`
	Codec      string            `json:"codec"`
	Acks       string            `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	At         json.RawMessage   `json:"at"`
	First      int               `json:"first"`
	To         int64             `json:"to"`
	Seconds    float64           `json:"seconds"`
	Group      string            `json:"group"`
	How        string            `json:"how"`
	Isolation  string            `json:"isolation"`
}

// Start is where consuming begins: Time if it is by time, or else Offset, which is -2 for the earliest.
func (question Question) Start() (offset int64, time int64, byTime bool) {
	var at struct{ Timestamp int64 }
	if json.Unmarshal(question.At, &at) == nil && at.Timestamp > 0 {
		return 0, at.Timestamp, true
	}
	if json.Unmarshal(question.At, &offset) == nil {
		return offset, 0, false
	}
	return -2, 0, false
}

var writing sync.Mutex

// Tell writes one answer.
func Tell(answer any) {
	line, err := json.Marshal(answer)
	if err != nil {
		line, _ = json.Marshal(Answer{"error": err.Error()})
	}
	writing.Lock()
	defer writing.Unlock()
	fmt.Fprintln(os.Stdout, string(line))
}

// Serve answers until stdin ends.
func Serve(verbs map[string]func(Question) (Answer, error)) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var question Question
		if err := json.Unmarshal(lines.Bytes(), &question); err != nil {
			Tell(Answer{"error": err.Error()})
			continue
		}
		verb, known := verbs[question.Do]
		if !known {
			Tell(Answer{"not_offered": "the client has no such call"})
			continue
		}
		answer, err := verb(question)
		var notOffered NotOffered
		switch {
		case errors.As(err, &notOffered):
			Tell(Answer{"not_offered": err.Error()})
		case err != nil:
			Tell(Answer{"error": err.Error()})
		case answer == nil:
			Tell(Answer{})
		default:
			Tell(answer)
		}
	}
}

// Stream collects the acks of a stream, and tells once that a third of its records were acked.
type Stream struct {
	mutex  sync.Mutex
	at     int
	acked  []any
	failed []string
}

// NewStream is one of count records.
func NewStream(count int) *Stream { return &Stream{at: count / 3, acked: []any{}, failed: []string{}} }

// Done takes what came of one record.
func (stream *Stream) Done(partition int32, offset int64, value string, err error) {
	stream.mutex.Lock()
	defer stream.mutex.Unlock()
	if err != nil {
		stream.failed = append(stream.failed, err.Error())
		return
	}
	stream.acked = append(stream.acked, []any{partition, offset, value})
	if len(stream.acked) == stream.at {
		Tell(Answer{"progress": stream.at})
	}
}

// Answer is what came of them all.
func (stream *Stream) Answer() Answer {
	stream.mutex.Lock()
	defer stream.mutex.Unlock()
	return Answer{"acked": stream.acked, "failed": stream.failed}
}

// Paced calls send with 0 to count-1, spread evenly over the time.
func Paced(count int, seconds float64, send func(number int)) {
	began := time.Now()
	for number := range count {
		time.Sleep(time.Until(began.Add(time.Duration(float64(number) * seconds / float64(count) * float64(time.Second)))))
		send(number)
	}
}

// Text is a string or null of some bytes.
func Text(value []byte) *string {
	if value == nil {
		return nil
	}
	text := string(value)
	return &text
}

// Bytes is the bytes of a string, nil for null.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return append([]byte{}, *text...)
}
