package penstock

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The worked example of docs/grpc.md.
func example(t *testing.T) ([]byte, []Record) {
	page, err := os.ReadFile("../../../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```hex\n(.*?)```").FindSubmatch(page)
	var digits strings.Builder
	for _, line := range strings.Split(string(block[1]), "\n") {
		before, _, _ := strings.Cut(line, "   ")
		digits.WriteString(strings.ReplaceAll(before, " ", ""))
	}
	data, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	first := time.UnixMilli(1700000000000)
	return data, []Record{
		{Time: first, Key: []byte("k"), Value: []byte("v1"), Headers: []Header{{"h", []byte("1")}}},
		{Time: first.Add(5 * time.Millisecond), Offset: 1, Value: []byte("value 2")},
	}
}

func TestTheWorkedExampleIsEncodedToItsBytes(t *testing.T) {
	data, records := example(t)
	if made := EncodeBatch(records); !bytes.Equal(made, data) {
		t.Fatalf("made % x, want % x", made, data)
	}
}

func TestTheWorkedExampleIsDecodedToItsRecords(t *testing.T) {
	data, records := example(t)
	batches, err := decodeBatches(append(data, data[:80]...)) // and a partial batch behind it
	if err != nil || len(batches) != 1 {
		t.Fatal(batches, err)
	}
	if batches[0].nextOffset != 2 || !reflect.DeepEqual(batches[0].records, records) {
		t.Fatalf("read %+v, want %+v", batches[0], records)
	}
}

func TestADamagedBatchIsAnError(t *testing.T) {
	data, _ := example(t)
	for at := magicAt; at < len(data); at++ {
		damaged := bytes.Clone(data)
		damaged[at] ^= 0x10
		if _, err := decodeBatches(damaged); err == nil {
			t.Fatalf("byte %d was changed, and no error came", at)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(EncodeBatch([]Record{{Value: []byte("v")}})[headerBytes:])
	f.Fuzz(func(t *testing.T, body []byte) {
		reader := &fieldReader{data: body}
		for len(reader.data) > 0 && reader.err == nil {
			reader.record()
		}
	})
}
