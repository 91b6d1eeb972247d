package penstock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"penstock.example/go/penstockpb"
)

// codeMeaning is a row of the table of error codes (codes.go).
type codeMeaning struct {
	name           string
	retriable      bool
	nothingWritten bool // of a produce request: no record of the partition was written
	leaderMayMove  bool // another node may lead by now
}

const (
	offsetOutOfRange         = 1
	networkException         = 13
	requestTimedOut          = 7
	messageTooLarge          = 10
	unsupportedVersion       = 35
	invalidRequest           = 42
	saslAuthenticationFailed = 58
	authenticationRequired   = 1000
	resourceExhausted        = 89
	unknownServerError       = -1

	errorCodeTrailer = "penstock-error-code"
)

// Error is an error with a code of the protocol. A code that this client does not know is not retriable.
type Error struct {
	Code           int32
	Message        string
	NothingWritten bool
	Leader         *penstockpb.LeaderHint
	LogStartOffset int64
	LogEndOffset   int64
}

func (e *Error) Error() string {
	name := codeTable[e.Code].name
	if name == "" {
		name = fmt.Sprintf("error code %d, which this client does not know", e.Code)
	}
	return name + ": " + e.Message
}

func (e *Error) Retriable() bool { return codeTable[e.Code].retriable }

func newError(code int32, message string) *Error {
	return &Error{
		Code: code, Message: message, NothingWritten: codeTable[code].nothingWritten, LogStartOffset: -1, LogEndOffset: -1,
	}
}

// fromMessage is the error in an answer, or in a part of it; nil where there is none.
func fromMessage(message *penstockpb.Error) *Error {
	if message.GetCode() == 0 {
		return nil
	}
	found := newError(message.Code, message.Message)
	found.NothingWritten = found.NothingWritten || message.NothingWritten
	found.Leader = message.Leader
	found.LogStartOffset, found.LogEndOffset = message.LogStartOffset, message.LogEndOffset
	return found
}

// fromStatus is the error of a call or stream that ended: the broker's own by its trailer, else what gRPC says of it. The
// outcome of a write is unknown then: it is not known which of the stream's requests the error is about.
func fromStatus(err error, trailer metadata.MD, address string) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	told := status.Convert(err)
	if values := trailer.Get(errorCodeTrailer); len(values) > 0 {
		if code, bad := strconv.ParseInt(values[0], 10, 16); bad == nil && code != 0 {
			found := newError(int32(code), told.Message())
			found.NothingWritten = false
			return found
		}
	}
	found := newError(codeOfStatus(told), fmt.Sprintf("%s: %s: %s", address, told.Code(), told.Message()))
	found.NothingWritten = false
	return found
}

func codeOfStatus(told *status.Status) int32 {
	switch told.Code() {
	case codes.Unavailable, codes.Canceled, codes.Aborted:
		return networkException
	case codes.DeadlineExceeded:
		return requestTimedOut
	case codes.ResourceExhausted:
		if strings.Contains(told.Message(), "larger than max") {
			return messageTooLarge
		}
		return resourceExhausted
	case codes.Unimplemented:
		return unsupportedVersion
	case codes.InvalidArgument:
		return invalidRequest
	}
	for _, sign := range []string{"RST_STREAM", "GOAWAY", "EOF"} {
		if strings.Contains(told.Message(), sign) {
			return networkException // the connection died in mid-call
		}
	}
	return unknownServerError
}

// streamError is the error of a stream whose Send or Recv failed with err.
func streamError(err error, stream grpc.ClientStream, address string) *Error {
	return fromStatus(err, stream.Trailer(), address)
}
