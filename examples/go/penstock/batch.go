package penstock

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// Record is what a user writes and reads. A nil key or value is Kafka's null.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one of a record's headers.
type Header struct {
	Name  string
	Value []byte
}

// The header of a record batch: docs/grpc.md, "The record batch".
const (
	batchLengthAt     = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21
	lastOffsetDeltaAt = 23
	baseTimestampAt   = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	recordCountAt     = 57
	headerBytes       = 61

	magic         = 2
	codecMask     = 0x07
	appendTimeBit = 0x08
	controlBit    = 0x20
	gzipCodec     = 1

	// unpackedBytesMax limits what a compressed batch may grow to.
	unpackedBytesMax = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeBatch makes one batch of the records, as a producer sends it. There must be a record.
func EncodeBatch(records []Record) []byte {
	base, latest := records[0].Time.UnixMilli(), records[0].Time.UnixMilli()
	batch := make([]byte, headerBytes)
	for i, record := range records {
		stamp := record.Time.UnixMilli()
		latest = max(latest, stamp)
		body := encodeRecord(record, stamp-base, int64(i))
		batch = binary.AppendVarint(batch, int64(len(body)))
		batch = append(batch, body...)
	}
	big := binary.BigEndian
	big.PutUint32(batch[batchLengthAt:], uint32(len(batch)-leaderEpochAt))
	big.PutUint32(batch[leaderEpochAt:], ^uint32(0))
	batch[magicAt] = magic
	big.PutUint32(batch[lastOffsetDeltaAt:], uint32(len(records)-1))
	big.PutUint64(batch[baseTimestampAt:], uint64(base))
	big.PutUint64(batch[maxTimestampAt:], uint64(latest))
	for at := producerIDAt; at < recordCountAt; at++ {
		batch[at] = 0xff // producer id, epoch and sequence are -1
	}
	big.PutUint32(batch[recordCountAt:], uint32(len(records)))
	big.PutUint32(batch[crcAt:], crc32.Checksum(batch[attributesAt:], castagnoli)) // AFTER everything that it covers
	return batch
}

func encodeRecord(record Record, timeDelta, offsetDelta int64) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, timeDelta)
	body = binary.AppendVarint(body, offsetDelta)
	body = appendNullable(body, record.Key)
	body = appendNullable(body, record.Value)
	body = binary.AppendVarint(body, int64(len(record.Headers)))
	for _, header := range record.Headers {
		body = binary.AppendVarint(body, int64(len(header.Name)))
		body = append(body, header.Name...)
		body = appendNullable(body, header.Value)
	}
	return body
}

func appendNullable(to, data []byte) []byte {
	if data == nil {
		return binary.AppendVarint(to, -1)
	}
	return append(binary.AppendVarint(to, int64(len(data))), data...)
}

// fetchedBatch is one batch of a fetched buffer.
type fetchedBatch struct {
	nextOffset  int64 // where reading goes on after it
	leaderEpoch int32
	records     []Record
}

// decodeBatches decodes the whole batches of a buffer, and verifies their checksums. A partial last batch is left out.
func decodeBatches(buffer []byte) ([]fetchedBatch, error) {
	var batches []fetchedBatch
	for len(buffer) >= headerBytes {
		size := leaderEpochAt + int(int32(binary.BigEndian.Uint32(buffer[batchLengthAt:])))
		if size < headerBytes {
			return nil, fmt.Errorf("a batch of %d bytes is smaller than its header", size)
		}
		if size > len(buffer) {
			break
		}
		batch, err := decodeBatch(buffer[:size])
		if err != nil {
			return nil, fmt.Errorf("batch at offset %d: %w", int64(binary.BigEndian.Uint64(buffer)), err)
		}
		batches = append(batches, batch)
		buffer = buffer[size:]
	}
	return batches, nil
}

func decodeBatch(batch []byte) (fetchedBatch, error) {
	big := binary.BigEndian
	if batch[magicAt] != magic {
		return fetchedBatch{}, fmt.Errorf("magic is %d, only %d is known", batch[magicAt], magic)
	}
	if crc32.Checksum(batch[attributesAt:], castagnoli) != big.Uint32(batch[crcAt:]) {
		return fetchedBatch{}, errors.New("the checksum does not match")
	}
	base := int64(big.Uint64(batch))
	lastDelta := int64(int32(big.Uint32(batch[lastOffsetDeltaAt:])))
	attributes := big.Uint16(batch[attributesAt:])
	found := fetchedBatch{nextOffset: base + lastDelta + 1, leaderEpoch: int32(big.Uint32(batch[leaderEpochAt:]))}
	if attributes&controlBit != 0 {
		return found, nil // not for users
	}
	body, err := unpacked(batch[headerBytes:], attributes&codecMask)
	if err != nil {
		return fetchedBatch{}, err
	}
	baseTime := int64(big.Uint64(batch[baseTimestampAt:]))
	latest := int64(big.Uint64(batch[maxTimestampAt:]))
	reader := &fieldReader{data: body}
	for count := int32(big.Uint32(batch[recordCountAt:])); count > 0 && reader.err == nil; count-- {
		record, timeDelta, offsetDelta := reader.record()
		record.Offset = base + offsetDelta
		record.Time = time.UnixMilli(baseTime + timeDelta)
		if attributes&appendTimeBit != 0 {
			record.Time = time.UnixMilli(latest)
		}
		found.records = append(found.records, record)
	}
	if reader.err == nil && len(reader.data) != 0 {
		reader.err = fmt.Errorf("%d bytes are left over after the last record", len(reader.data))
	}
	return found, reader.err
}

func unpacked(body []byte, codec uint16) ([]byte, error) {
	switch codec {
	case 0:
		return body, nil
	case gzipCodec:
		reader, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(reader, unpackedBytesMax+1))
		if err == nil && len(data) > unpackedBytesMax {
			err = fmt.Errorf("it unpacks to more than %d bytes", unpackedBytesMax)
		}
		return data, err
	}
	return nil, fmt.Errorf("codec %d is not supported here: this example reads none (0) and gzip (1)", codec)
}

// fieldReader takes the fields of records off a body; after an error it gives zeros.
type fieldReader struct {
	data []byte
	err  error
}

func (r *fieldReader) record() (record Record, timeDelta, offsetDelta int64) {
	length := r.varint()
	if r.err != nil || length < 0 || length > int64(len(r.data)) {
		r.fail()
		return
	}
	body := &fieldReader{data: r.data[:length]}
	r.data = r.data[length:]
	body.take(1) // attributes
	timeDelta, offsetDelta = body.varint(), body.varint()
	record.Key, record.Value = body.nullable(), body.nullable()
	for count := body.varint(); count > 0 && body.err == nil; count-- {
		record.Headers = append(record.Headers, Header{string(body.nullable()), body.nullable()})
	}
	if len(body.data) != 0 {
		body.fail()
	}
	r.err = body.err
	return
}

func (r *fieldReader) varint() int64 {
	value, size := binary.Varint(r.data)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[size:]
	return value
}

func (r *fieldReader) nullable() []byte {
	length := r.varint()
	if length == -1 {
		return nil
	}
	return r.take(length)
}

func (r *fieldReader) take(length int64) []byte {
	if r.err != nil || length < 0 || length > int64(len(r.data)) {
		r.fail()
		return nil
	}
	taken := r.data[:length:length]
	r.data = r.data[length:]
	return taken
}

func (r *fieldReader) fail() {
	if r.err == nil {
		r.err = errors.New("its bytes contradict its header")
	}
	r.data = nil
}
