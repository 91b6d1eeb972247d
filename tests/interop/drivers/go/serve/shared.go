package serve

import (
	"slices"
	"sync"
	"time"
)

// Last is the value of the last record of a partition that members share, ResetTo the offset of a reset.
const (
	Last    = "last"
	ResetTo = 3
)

// Shared has the records of one member that shares a topic with others, and knows whether it has all of its own.
type Shared struct {
	Records  []any
	mutex    sync.Mutex
	assigned []int32
	own      []int32
	ended    map[int32]bool
	deadline time.Time
}

// NewShared is that of a member without partitions.
func NewShared() *Shared {
	return &Shared{Records: []any{}, ended: map[int32]bool{}, deadline: time.Now().Add(3 * Wait)}
}

// Assign adds and removes partitions, and tells of what the member has now.
func (shared *Shared) Assign(added, removed []int32) {
	shared.mutex.Lock()
	defer shared.mutex.Unlock()
	now := slices.DeleteFunc(slices.Clone(shared.assigned), func(one int32) bool { return slices.Contains(removed, one) })
	now = append(now, added...)
	slices.Sort(now)
	if now = slices.Compact(now); !slices.Equal(now, shared.assigned) {
		shared.assigned = now
		Tell(Answer{"assigned": now})
	}
}

// Add takes a record, and returns how many there are. The partitions that the member has at the first are its own.
func (shared *Shared) Add(partition int32, offset int64, value string) int {
	shared.mutex.Lock()
	defer shared.mutex.Unlock()
	if shared.own == nil {
		shared.own = slices.Clone(shared.assigned)
	}
	shared.Records = append(shared.Records, []any{partition, offset, value})
	if value == Last {
		shared.ended[partition] = true
	}
	return len(shared.Records)
}

// IsOver is true when the last record of each partition of its own has come, or the time is over.
func (shared *Shared) IsOver() bool {
	shared.mutex.Lock()
	defer shared.mutex.Unlock()
	if time.Now().After(shared.deadline) {
		return true
	}
	return shared.own != nil && !slices.ContainsFunc(shared.own, func(one int32) bool { return !shared.ended[one] })
}
